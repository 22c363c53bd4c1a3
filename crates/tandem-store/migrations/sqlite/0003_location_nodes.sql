-- The node that wrote the row. A node deletes only its own rows. Rows without a node belong to the one with the default name.
ALTER TABLE location ADD COLUMN node TEXT NOT NULL DEFAULT 'tandem';
