-- +goose Up
CREATE INDEX history_id ON history (id, ended);                                     -- one webhook-id
