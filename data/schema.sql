-- The cost database of pipesim: measurements of a machine, with every raw sample, and real runs with their predictions. Times are integer nanoseconds, sizes integer bytes, moments ISO 8601 in UTC.
--
-- The program that creates the file sets `PRAGMA application_id` (0x50534344, "PSCD"), `PRAGMA user_version` (the version of
-- this schema) and write-ahead logging, and runs this text in one transaction. Every measurement is one transaction with its
-- samples. Look around with:  sqlite3 costs.db 'SELECT * FROM op_time'

-- One calibration: its circumstances. Calibrations of one name are numbered from 1 and kept side by side; the name alone means
-- the last one, NAME#2 the second.
CREATE TABLE profile (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL CHECK (name <> ''),
  number INTEGER NOT NULL CHECK (number >= 1),
  source TEXT NOT NULL, -- where an imported profile comes from; empty: measured here
  -- All three are empty where only stages are known: shapes are "stage=3/8" then, stage 3 of 0 .. 7.
  model_name TEXT NOT NULL,
  model_digest TEXT NOT NULL CHECK (length (model_digest) = 64 OR (model_digest = '' AND model_text = '')), -- SHA-256 over
                                                                                    -- model_text without the name
  model_text TEXT NOT NULL,                                                         -- the description as .ini
  device TEXT NOT NULL CHECK (device <> ''),
  transport TEXT NOT NULL,
  shares TEXT NOT NULL, -- in what proportion its devices split accelerators, "4,3,2,1"; empty: equal parts
  host TEXT NOT NULL,
  processor TEXT NOT NULL,
  kernel TEXT NOT NULL,
  libraries TEXT NOT NULL,
  version TEXT NOT NULL, -- of pipesim
  created TEXT NOT NULL,
  choices TEXT NOT NULL, -- PsDeviceClass.choices of the device, in base64: the decisions it made by timing, and ran with; empty:
                         -- none
  -- The places of the devices (costdb.h): "node1/Package:0/Core:0;node1/Package:1/Core:4"; empty: not known. Transfers over links
  -- of the class that the first link belongs to have the shape ''; over those of another class, or over one link,
  -- "link=network" or "link=2-3".
  places TEXT NOT NULL,
  UNIQUE (name, number)
) STRICT;

-- One measured quantity: an op on a stage shape, a transfer, a message of a device to itself, an all-reduce over processes or
-- threads, an overlapped pair by the shape of its forward's stage, or the host's time for each op or for each send or receive.
-- Shapes of ops may end in ",slice=1/4", one of four slices, or in ",warm": right after the op that made its data.
CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,
  subject TEXT NOT NULL CHECK (subject IN ('op', 'transfer', 'self-send', 'all-reduce', 'pair', 'host')),
  -- Ops and pairs: "layers=2,embedding", or "layers=2,blocks=8", or "stage=3/8"; self-sends: "nccl-self"; transfers: what else
  -- goes on, empty, "both-ways", "pairs=2" or "during-compute", or the one boundary that they cross, "stage=3/8" to the next or
  -- "stage=3/8,back" to the one before; all-reduces: empty; host: "op", "send" or "receive".
  shape TEXT NOT NULL,
  kind TEXT NOT NULL,                            -- ops: F, B, W, BW, R or O; others: empty
  bytes INTEGER NOT NULL CHECK (bytes >= 0),     -- size of the message; ops: 0
  devices INTEGER NOT NULL CHECK (devices >= 1), -- busy at the same time, the measured one included
  sharing INTEGER NOT NULL CHECK (sharing >= 1), -- among which the accelerator is split, busy or not
  share INTEGER NOT NULL CHECK (share >= 0),     -- ops: that of the device in profile.shares; 0: equal parts
  cache TEXT NOT NULL CHECK (cache IN ('run', 'cold', 'warm')), -- run: as the ops of a real run leave it
  n INTEGER NOT NULL CHECK (n >= 1),             -- samples kept
  median_ns INTEGER NOT NULL,
  q1_ns INTEGER NOT NULL,
  q3_ns INTEGER NOT NULL,
  mad_ns INTEGER NOT NULL CHECK (mad_ns >= 0),   -- median absolute deviation from the median
  min_ns INTEGER NOT NULL CHECK (min_ns >= 0),
  launch_ns INTEGER CHECK (launch_ns > 0), -- ops: what the host takes beyond the accelerator, whose time median_ns is
  take_bytes INTEGER NOT NULL CHECK (take_bytes >= 0),   -- peak during the op above what was held before
  give_bytes INTEGER NOT NULL CHECK (give_bytes >= 0),   -- that peak above what is held after
  state_bytes INTEGER NOT NULL CHECK (state_bytes >= 0), -- weights, gradients, optimizer state of the stage
  stop TEXT NOT NULL CHECK (stop IN ('converged', 'sample cap', 'time cap', 'imported', 'estimated')),
  taken TEXT NOT NULL,
  UNIQUE (profile, subject, shape, kind, bytes, devices, sharing, share, cache),
  CHECK (min_ns <= q1_ns AND q1_ns <= median_ns AND median_ns <= q3_ns),
  CHECK ((subject = 'op' AND kind IN ('F', 'B', 'W', 'BW', 'R', 'O') AND shape <> '' AND bytes = 0)
         OR (subject = 'transfer' AND kind = '' AND share = 0 AND cache = 'run')
         OR (subject = 'self-send' AND kind = '' AND shape <> '' AND share = 0 AND cache = 'run')
         OR (subject = 'all-reduce' AND kind = '' AND shape = '' AND share = 0 AND cache = 'run')
         OR (subject IN ('pair', 'host') AND kind = '' AND shape <> '' AND bytes = 0 AND share = 0 AND cache = 'run'))
) STRICT;

-- The state of the hardware when sampling began and ended, and its medians in between. NULL: not known.
CREATE TABLE condition (
  measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
  moment TEXT NOT NULL CHECK (moment IN ('before', 'during', 'after')),
  clock_mhz INTEGER CHECK (clock_mhz > 0),
  memory_clock_mhz INTEGER CHECK (memory_clock_mhz > 0),
  temperature_c INTEGER CHECK (temperature_c > 0),
  power_mw INTEGER CHECK (power_mw > 0),
  throttle TEXT, -- reasons to run slower: power, heat, hardware, setting; empty: none
  PRIMARY KEY (measurement, moment)
) STRICT, WITHOUT ROWID;

-- One op that is measured again and again while a profile grows, to catch drift.
CREATE TABLE sentinel (
  id INTEGER PRIMARY KEY, -- in the order of the readings
  profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,
  what TEXT NOT NULL CHECK (what <> ''),
  median_ns INTEGER NOT NULL CHECK (median_ns >= 0),
  n INTEGER NOT NULL CHECK (n >= 1),
  taken TEXT NOT NULL
) STRICT;

-- The samples of a measurement in the order in which they were taken.
CREATE TABLE sample (
  measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  ns INTEGER NOT NULL CHECK (ns >= 0),
  PRIMARY KEY (measurement, position)
) STRICT, WITHOUT ROWID;

-- A real run and its prediction.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  profile TEXT NOT NULL, -- name of the profile that the prediction used; empty: none
  schedule TEXT NOT NULL CHECK (schedule <> ''),
  device TEXT NOT NULL,
  transport TEXT NOT NULL,
  devices INTEGER NOT NULL CHECK (devices >= 1),
  chunks INTEGER NOT NULL CHECK (chunks >= 1),
  microbatches INTEGER NOT NULL CHECK (microbatches >= 1),
  steps INTEGER NOT NULL CHECK (steps >= 1),
  predicted_iteration_ns INTEGER NOT NULL CHECK (predicted_iteration_ns >= 0), -- simulated
  measured_iteration_ns INTEGER NOT NULL CHECK (measured_iteration_ns >= 0),   -- median over steps after the first
  predicted_peak_bytes INTEGER NOT NULL CHECK (predicted_peak_bytes >= 0),     -- simulated
  measured_peak_bytes INTEGER NOT NULL CHECK (measured_peak_bytes >= 0),
  clock_mhz INTEGER CHECK (clock_mhz > 0), -- median over the steps of the device with the slowest; NULL: not known
  "check" TEXT NOT NULL CHECK ("check" IN ('bit-equal', 'equal-within', 'differs', 'not run')),
  started TEXT NOT NULL
) STRICT;

-- Measured op times in milliseconds, with the spread as half the distance of the quartiles over the median.
CREATE VIEW op_time AS
SELECT profile.name AS profile, shape, kind, devices, sharing, share, cache, n, median_ns / 1e6 AS median_ms,
       launch_ns / 1e3 AS launch_us, (q3_ns - q1_ns) / 2.0 / max (median_ns, 1) AS spread, take_bytes,
       give_bytes, state_bytes, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'op';

-- Measured transfer times in microseconds and their rate in GB/s.
CREATE VIEW transfer_time AS
SELECT profile.name AS profile, shape, bytes, devices, n, median_ns / 1e3 AS median_us,
       bytes * 1.0 / max (median_ns, 1) AS gigabytes_per_second, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'transfer';

-- Errors of predictions: (predicted - measured) / measured. Runs without a prediction are left out.
CREATE VIEW accuracy AS
SELECT id, profile, schedule, devices, chunks, microbatches, measured_iteration_ns, predicted_iteration_ns,
       (predicted_iteration_ns - measured_iteration_ns) * 1.0 / measured_iteration_ns AS iteration_error,
       CASE WHEN predicted_peak_bytes > 0 AND measured_peak_bytes > 0
            THEN (predicted_peak_bytes - measured_peak_bytes) * 1.0 / measured_peak_bytes END AS peak_memory_error
FROM run
WHERE measured_iteration_ns > 0 AND predicted_iteration_ns > 0;
