-- Brings a cost database of version 3 to version 4, inside one transaction and with foreign keys off. Version 3 knew clocks at
-- the ends of measurements only, none of runs, and
-- kept no choices.
CREATE TABLE choices (
  profile INTEGER PRIMARY KEY REFERENCES profile (id) ON DELETE CASCADE,
  base64 TEXT NOT NULL CHECK (base64 <> '')
) STRICT;

DROP VIEW accuracy;
CREATE TEMP TABLE former_condition AS SELECT * FROM condition;
DROP TABLE condition;
CREATE TEMP TABLE former_run AS SELECT * FROM run;
DROP TABLE run;

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

INSERT INTO condition SELECT * FROM former_condition;
DROP TABLE former_condition;

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

INSERT INTO run (id, profile, schedule, device, transport, devices, chunks, microbatches, steps, predicted_iteration_ns,
                 measured_iteration_ns, predicted_peak_bytes, measured_peak_bytes, "check", started)
SELECT id, profile, schedule, device, transport, devices, chunks, microbatches, steps, predicted_iteration_ns,
       measured_iteration_ns, predicted_peak_bytes, measured_peak_bytes, "check", started
FROM former_run;
DROP TABLE former_run;

CREATE VIEW accuracy AS
SELECT id, profile, schedule, devices, chunks, microbatches, measured_iteration_ns, predicted_iteration_ns,
       (predicted_iteration_ns - measured_iteration_ns) * 1.0 / measured_iteration_ns AS iteration_error,
       CASE WHEN predicted_peak_bytes > 0 AND measured_peak_bytes > 0
            THEN (predicted_peak_bytes - measured_peak_bytes) * 1.0 / measured_peak_bytes END AS peak_memory_error
FROM run
WHERE measured_iteration_ns > 0 AND predicted_iteration_ns > 0;
