-- Brings a cost database of version 4 to version 5, inside one transaction and with foreign keys off. Version 4 kept one
-- calibration of each name, all measured where they are stored, and neither pairs nor the host's time.
DROP VIEW op_time;
DROP VIEW transfer_time;
CREATE TEMP TABLE former_profile AS SELECT * FROM profile;
DROP TABLE profile;
CREATE TEMP TABLE former AS SELECT * FROM measurement;
DROP TABLE measurement;

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
  UNIQUE (name, number)
) STRICT;

INSERT INTO profile SELECT id, name, 1, '', model_name, model_digest, model_text, device, transport, shares, host,
                           processor, kernel, libraries, version, created FROM former_profile;
DROP TABLE former_profile;

CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,
  subject TEXT NOT NULL CHECK (subject IN ('op', 'transfer', 'self-send', 'all-reduce', 'pair', 'host')),
  -- Ops and pairs: "layers=2,embedding", or "layers=2,blocks=8", or "stage=3/8"; self-sends: "nccl-self"; transfers: what else
  -- goes on, empty, "both-ways", "pairs=2" or "beside-compute", or the one boundary that they cross, "stage=3/8" to the next or
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
  device_ns INTEGER CHECK (device_ns > 0), -- ops: median of the accelerator's own part; NULL: not known
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

INSERT INTO measurement SELECT * FROM former;
DROP TABLE former;

CREATE VIEW op_time AS
SELECT profile.name AS profile, shape, kind, devices, sharing, share, cache, n, median_ns / 1e6 AS median_ms,
       (median_ns - device_ns) / 1e3 AS launch_us, (q3_ns - q1_ns) / 2.0 / max (median_ns, 1) AS spread, take_bytes,
       give_bytes, state_bytes, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'op';

CREATE VIEW transfer_time AS
SELECT profile.name AS profile, shape, bytes, devices, n, median_ns / 1e3 AS median_us,
       bytes * 1.0 / max (median_ns, 1) AS gigabytes_per_second, stop
FROM measurement JOIN profile ON profile.id = measurement.profile
WHERE subject = 'transfer';
