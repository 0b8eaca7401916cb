-- Brings a cost database of version 3 to version 4, inside one transaction. Version 3 kept no choices.
CREATE TABLE choices (
  profile INTEGER PRIMARY KEY REFERENCES profile (id) ON DELETE CASCADE,
  base64 TEXT NOT NULL CHECK (base64 <> '')
) STRICT;
