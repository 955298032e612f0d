-- +goose Up
ALTER TABLE history_owner ADD COLUMN replaced_by text NOT NULL DEFAULT '';        -- after a loss of the owner's data: the id of the new data
