-- +goose Up
-- One webhook-id. It has no content yet: the service builds the index of each existing partition concurrently.
CREATE INDEX history_id ON ONLY history (id, ended);
