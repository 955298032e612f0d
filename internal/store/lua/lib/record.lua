-- The head of a record: {"due":<Unix ms>,"made":<generation>… (notice.Decode reads the same).
--   made(record)  returns the generation as a number, 0 without a record or of an unreadable one
local function made(record) return tonumber(record and string.match(record, '^{"due":%d+,"made":(%d+)') or 0) end
