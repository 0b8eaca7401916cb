-- Brings a cost database of version 1 to version 2, inside one transaction and with foreign keys off. Version 1 knew ops and
-- transfers as real runs leave the caches and nothing of accelerators that several devices share, so each device had its own.
DROP VIEW op_time;
DROP VIEW transfer_time;
CREATE TEMP TABLE former AS SELECT * FROM measurement;
DROP TABLE measurement;

CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,
  subject TEXT NOT NULL CHECK (subject IN ('op', 'transfer', 'self-send')),
  shape TEXT NOT NULL,                           -- ops: "layers=2,embedding"; self-sends: "nccl-self"; transfers: empty
  kind TEXT NOT NULL,                            -- ops: F, B, W, BW, R or O; others: empty
  bytes INTEGER NOT NULL CHECK (bytes >= 0),     -- size of the message; ops: 0
  devices INTEGER NOT NULL CHECK (devices >= 1), -- busy at the same time, the measured one included
  sharing INTEGER NOT NULL CHECK (sharing >= 1), -- among which the accelerator is split, busy or not
  cache TEXT NOT NULL CHECK (cache IN ('run', 'cold', 'warm')), -- run: as the ops of a real run leave it
  n INTEGER NOT NULL CHECK (n >= 1),             -- samples kept
  median_ns INTEGER NOT NULL,
  q1_ns INTEGER NOT NULL,
  q3_ns INTEGER NOT NULL,
  mad_ns INTEGER NOT NULL CHECK (mad_ns >= 0),   -- median absolute deviation from the median
  min_ns INTEGER NOT NULL CHECK (min_ns >= 0),
  device_ns INTEGER CHECK (device_ns > 0), -- ops: median of the accelerator's own part; NULL: not known
  take_bytes INTEGER NOT NULL CHECK (take_bytes >= 0),   -- peak during the op above what was held before
  give_bytes INTEGER NOT NULL CHECK (give_bytes >= 0),   -- that peak above what is held after
  state_bytes INTEGER NOT NULL CHECK (state_bytes >= 0), -- weights, gradients, optimizer state of the stage
  stop TEXT NOT NULL CHECK (stop IN ('converged', 'sample cap', 'time cap')),
  taken TEXT NOT NULL,
  UNIQUE (profile, subject, shape, kind, bytes, devices, sharing, cache),
  CHECK (min_ns <= q1_ns AND q1_ns <= median_ns AND median_ns <= q3_ns),
  CHECK ((subject = 'op' AND kind IN ('F', 'B', 'W', 'BW', 'R', 'O') AND shape <> '' AND bytes = 0)
         OR (subject = 'transfer' AND kind = '' AND shape = '' AND cache = 'run')
         OR (subject = 'self-send' AND kind = '' AND shape <> '' AND cache = 'run'))
) STRICT;

INSERT INTO measurement (id, profile, subject, shape, kind, bytes, devices, sharing, cache, n, median_ns, q1_ns, q3_ns, mad_ns,
                         min_ns, device_ns, take_bytes, give_bytes, state_bytes, stop, taken)
SELECT id, profile, subject, shape, kind, bytes, devices, 1, 'run', n, median_ns, q1_ns, q3_ns, mad_ns, min_ns, NULL,
       take_bytes, give_bytes, state_bytes, stop, taken
FROM former;
DROP TABLE former;

CREATE TABLE condition (
  measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
  moment TEXT NOT NULL CHECK (moment IN ('before', 'after')),
  clock_mhz INTEGER CHECK (clock_mhz > 0),
  memory_clock_mhz INTEGER CHECK (memory_clock_mhz > 0),
  temperature_c INTEGER CHECK (temperature_c > 0),
  power_mw INTEGER CHECK (power_mw > 0),
  throttle TEXT, -- reasons to run slower: power, heat, hardware, setting; empty: none
  PRIMARY KEY (measurement, moment)
) STRICT, WITHOUT ROWID;

CREATE TABLE sentinel (
  profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  what TEXT NOT NULL CHECK (what <> ''),
  median_ns INTEGER NOT NULL CHECK (median_ns >= 0),
  n INTEGER NOT NULL CHECK (n >= 1),
  taken TEXT NOT NULL,
  PRIMARY KEY (profile, position)
) STRICT, WITHOUT ROWID;

CREATE VIEW op_time AS
SELECT profile.name AS profile, shape, kind, devices, sharing, cache, n, median_ns / 1e6 AS median_ms,
       (median_ns - device_ns) / 1e3 AS launch_us, (q3_ns - q1_ns) / 2.0 / max (median_ns, 1) AS spread, take_bytes,
       give_bytes, state_bytes, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'op';

CREATE VIEW transfer_time AS
SELECT profile.name AS profile, bytes, devices, n, median_ns / 1e3 AS median_us,
       bytes * 1.0 / max (median_ns, 1) AS gigabytes_per_second, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'transfer';
