-- utf8(s) reports whether a text is UTF-8 without surrogates and without overlong forms.
-- Bound the length of the text.
local function utf8(s)
  local i = 1
  while true do
    i = string.find(s, '[\128-\255]', i)
    if not i then return true end
    local a, b, c, d = string.byte(s, i, i + 3)
    local function tail(x) return x and x >= 128 and x <= 191 end
    if a >= 194 and a <= 223 and tail(b) then
      i = i + 2
    elseif a >= 224 and a <= 239 and tail(b) and tail(c) and not (a == 224 and b < 160) and not (a == 237 and b > 159) then
      i = i + 3
    elseif a >= 240 and a <= 244 and tail(b) and tail(c) and tail(d) and not (a == 240 and b < 144) and not (a == 244 and b > 143) then
      i = i + 4
    else
      return false
    end
  end
end
