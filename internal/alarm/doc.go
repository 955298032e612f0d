// Package alarm writes messages for the group chats of teams, and signs them: DingTalk, Feishu (Lark), WeCom, Slack and
// Teams. It is the only place that knows a format: how a message is written, what acknowledges it, and how an attempt is
// signed.
//
// A text that comes from a receiver or a producer never becomes markup or a mention. Formats that have a plain text
// element get it there, the others get it escaped. Control and direction characters become spaces.
package alarm
