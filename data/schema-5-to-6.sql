-- Brings a cost database of version 5 to version 6, inside one transaction. Version 5 kept no places of devices.
CREATE TABLE places (
  profile INTEGER PRIMARY KEY REFERENCES profile (id) ON DELETE CASCADE,
  ways TEXT NOT NULL CHECK (ways <> '')
) STRICT;
