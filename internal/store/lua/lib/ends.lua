-- When a notice expires: see notice.Content.
--   ends(record)  returns the time in a record, as text; nil without a record, or of one that does not expire or is unreadable
local function ends(record)
  if not record then return nil end
  return string.match(record, '^{"due":%d+,"made":%d+,"expires":(%d+)') or
    string.match(record, '^{"due":%d+,"made":%d+,"first":%-?%d+,"expires":(%d+)')
end
