-- +goose Up
CREATE INDEX history_reason ON history (reason, ended) WHERE reason <> '';          -- one reason, which few rows have
