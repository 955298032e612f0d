-- +goose Up
CREATE INDEX history_reason ON history (reason, ended) WHERE reason <> '';
