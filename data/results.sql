-- The results of a sweep: one prediction per setting. Times are integer nanoseconds, sizes integer bytes. All predictions are
-- simulated; the columns costs_origin, transfers_origin and memory_origin say where their costs come from.
--
-- The program that creates the file sets `PRAGMA application_id` (0x50535257, "PSRW"), `PRAGMA user_version` (the version of
-- this schema) and write-ahead logging, and runs this text in one transaction. Look around with
--   sqlite3 -header results.db 'SELECT * FROM fastest'
-- or   pandas.read_sql ('SELECT * FROM result', sqlite3.connect ('results.db'))

-- The sweep. One row: a database holds one spec.
CREATE TABLE sweep (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  digest TEXT NOT NULL,   -- SHA-256 over spec and over what the files named in it hold
  spec TEXT NOT NULL,     -- its fields with all their values
  points INTEGER NOT NULL CHECK (points >= 1), -- settings, possible or not
  version TEXT NOT NULL   -- of pipesim
) STRICT;

-- A setting and its prediction. The program puts a column for each option of SETTING in place of the line OPTIONS, as
-- sim/setting/options.c lists them. Columns of options that were not swept hold their defaults. Keys of costs have columns
-- (cost_f_ns) where they were swept by themselves; the column costs does not hold these keys then.
--
-- DELETE FROM prediction WHERE devices = 8 deletes some; `pipesim sweep --resume` makes them again.
CREATE TABLE prediction (
  point INTEGER PRIMARY KEY, -- number of the setting in the sweep, from 0
  digest TEXT NOT NULL,      -- of the setting alone; no two points have the same
  -- OPTIONS
  makespan_ns INTEGER NOT NULL,
  max_span_ns INTEGER NOT NULL,
  iteration_ns INTEGER NOT NULL,
  bubble_ratio REAL NOT NULL,
  bubble_ratio_span REAL NOT NULL,
  lower_bound_ns INTEGER NOT NULL,
  peak_memory_bytes INTEGER NOT NULL,
  feasible INTEGER NOT NULL, -- 1: all devices leave the reserve of their memory free (pipesim help memory)
  asynchronous INTEGER NOT NULL, -- 1: gradients are of older weights, which is another training
  first_token_ns INTEGER NOT NULL, -- of prefill: mean time from the start until a prompt is in; else 0
  period_iterations INTEGER NOT NULL,
  devices_detail TEXT NOT NULL, -- JSON: [[busy_ns, span_ns, peak_memory_bytes, peak_activations], ...]
  origin TEXT NOT NULL,         -- of the prediction: simulated
  costs_origin TEXT NOT NULL,   -- given, measured, interpolated or modelled
  transfers_origin TEXT NOT NULL,
  memory_origin TEXT NOT NULL,
  unrest REAL NOT NULL          -- of measured costs: how far the machine's sentinel op moved beside them, 0.03: 3 %
) STRICT;

-- Settings that are not possible, and the reason.
CREATE TABLE skipped (
  point INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;

-- Predictions with the figures that follow from them.
CREATE VIEW result AS
SELECT *, CAST (iteration_ns AS REAL) / global_batch AS sequence_ns, -- time per sequence: compares different batches
  1e9 * global_batch / iteration_ns AS sequences_per_second,
  CAST (iteration_ns AS REAL) / lower_bound_ns AS above_bound
FROM prediction;

-- Every device of every prediction.
CREATE VIEW device AS
SELECT point, key AS device, json_extract (value, '$[0]') AS busy_ns, json_extract (value, '$[1]') AS span_ns,
  json_extract (value, '$[2]') AS peak_memory_bytes, json_extract (value, '$[3]') AS peak_activations
FROM prediction, json_each (devices_detail);

-- The number of settings for each reason.
CREATE VIEW skipped_reason AS
SELECT reason, count (*) AS settings FROM skipped GROUP BY reason ORDER BY settings DESC, reason;

-- The fastest synchronous setting that fits, for each number of devices and global batch.
CREATE VIEW fastest AS
SELECT * FROM (
  SELECT *, row_number () OVER (PARTITION BY devices, global_batch ORDER BY iteration_ns, peak_memory_bytes, point) AS place
  FROM result WHERE feasible AND NOT asynchronous)
WHERE place = 1 ORDER BY devices, global_batch;

-- No synchronous setting of as many devices and the same global batch is faster without needing more memory.
CREATE VIEW front AS
SELECT * FROM (
  SELECT *, min (iteration_ns) OVER (PARTITION BY devices, global_batch
    ORDER BY peak_memory_bytes, iteration_ns, point ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS better_ns
  FROM result WHERE feasible AND NOT asynchronous)
WHERE better_ns IS NULL OR iteration_ns < better_ns ORDER BY devices, global_batch, peak_memory_bytes;
