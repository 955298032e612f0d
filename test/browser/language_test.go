//go:build !quick

package browser

import (
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"notifier/internal/testkit"
)

// language chooses a language at the foot of a page, unless the page has it.
func (b *tab) language(tag string) {
	b.t.Helper()
	if js[string](b, "document.documentElement?.lang || ''") == tag {
		return
	}
	b.click(`footer a[lang="` + tag + `"]`)
	testkit.Until(b.t, "the page is in "+tag, func() bool { return js[string](b, "document.documentElement?.lang || ''") == tag })
}

// inChinese chooses Chinese without a script, and then checks the texts of scripts, live blocks, and the
// names, contrast and width of all pages.
func inChinese(b *tab, pages []string) {
	script := func(off bool) {
		b.t.Helper()
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: off}); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"}); err != nil {
		b.t.Fatal(err)
	}
	script(true)
	defer script(false)
	b.open("/ui/notices?q=shop:paid:&state=scheduled")
	b.click(`footer a[lang="zh-CN"]`)
	b.sees("Redis 中")
	script(false)
	b.open("/ui/")
	defer func() {
		b.open("/ui/")
		b.language("en")
	}()

	b.sees("实时更新")
	b.click("#live-hold")
	b.sees("更新已于")
	b.click("#live-hold")
	b.sees("实时更新")
	b.s.keep("shop:mail:welcome:zh", "", 40*time.Minute, "scheduled")
	testkit.Until(b.t, "a live block is in Chinese", func() bool {
		return strings.Contains(js[string](b, `document.getElementById("routes").innerText`), "条待投递")
	})
	b.sees("显示 UTC")
	b.click("#zone-switch")
	b.sees("所有时间均为 UTC")

	b.open("/ui/notices/shop:mail:welcome:zh")
	b.sees("分钟后")
	b.click(`details:has(form[action$="/cancel"]) summary`)
	b.click(`form[action$="/cancel"] button`)
	b.sees("通知已取消。")
	if at := js[string](b, "document.documentElement?.lang || ''"); at != "zh-CN" {
		b.t.Errorf("after a change the page is in %s", at)
	}

	b.open("/ui/doctor")
	b.sees("响应耗时")
	if rest := js[string](b, `[...document.querySelectorAll("article p[lang=en]")].map(p => p.innerText).
		filter(s => /[a-z]{2,} [a-z]{2,}/.test(s)).join("\n")`); rest != "" {
		b.t.Errorf("findings without Chinese: %s", rest)
	}
	looks(b, pages)
}
