"""The report's style sheet: light and dark as the reader's system is set, narrow screens, paper."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f6f6f4; --card: #fff; --ink: #16181d; --soft: #565b66; --faint: #e3e3df; --rule: #a9adb5;
  --good: #0b7a2f; --good-ground: #e4f4e8; --bad: #b3261e; --bad-ground: #fbe9e7;
  --care: #7a5200; --care-ground: #fdf1d6; --link: #1f5fb0;
  --s0: #2a78d6; --s1: #eb6834; --s2: #1baf7a; --s3: #eda100; --s4: #e87ba4; --s5: #4a3aa7; --s6: #008300;
  --s7: #8a8f99;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131416; --card: #1c1e21; --ink: #eceef1; --soft: #a4a9b3; --faint: #2f3237; --rule: #5b606a;
    --good: #63d08a; --good-ground: #12301d; --bad: #ff8a80; --bad-ground: #3b1715;
    --care: #f2bf4e; --care-ground: #352708; --link: #82b4f5;
    --s0: #3987e5; --s1: #d95926; --s2: #199e70; --s3: #c98500; --s4: #d55181; --s5: #9085e9; --s6: #32a032;
    --s7: #7d828c;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.wrap { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 15px; font-weight: 600; color: var(--soft); margin: 0 0 12px; }
h2 { font-size: 19px; margin: 40px 0 12px; }
h3 { font-size: 15px; margin: 24px 0 8px; }
p { margin: 0 0 8px; }
a { color: var(--link); }
code, .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 13px;
  overflow-wrap: anywhere; }
.verdict { border-radius: 10px; padding: 18px 22px; border-left: 8px solid; background: var(--card); }
.verdict .word { font-size: 30px; line-height: 1.2; font-weight: 700; margin: 0 0 6px; }
.verdict p { margin: 0; color: var(--ink); }
.clean { border-color: var(--good); background: var(--good-ground); } .clean .word { color: var(--good); }
.findings { border-color: var(--bad); background: var(--bad-ground); }
.findings .word { color: var(--bad); }
.unreadable { border-color: var(--care); background: var(--care-ground); }
.unreadable .word { color: var(--care); }
.about { color: var(--soft); margin: 12px 0 0; } .about p { margin: 0 0 2px; }
.checks { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 10px;
  list-style: none; padding: 0; margin: 0; }
.checks li { background: var(--card); border: 1px solid var(--faint); border-radius: 8px;
  padding: 10px 12px; }
.checks .name { font-weight: 600; margin-right: 8px; } .checks p { color: var(--soft); font-size: 13px;
  margin: 4px 0 0; }
.chip { display: inline-block; border-radius: 99px; padding: 1px 9px; font-size: 12px; font-weight: 600;
  white-space: nowrap; }
.chip.passed { color: var(--good); background: var(--good-ground); }
.chip.bad { color: var(--bad); background: var(--bad-ground); }
.chip.care { color: var(--care); background: var(--care-ground); }
.list { list-style: none; margin: 0; padding: 0; background: var(--card); border: 1px solid var(--faint);
  border-radius: 8px; }
.list > li { padding: 12px 16px; border-top: 1px solid var(--faint); }
.list > li:first-child { border-top: 0; }
.list .head { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: baseline; }
.list .subject { font-weight: 600; overflow-wrap: anywhere; } .list .when { color: var(--soft);
  margin-left: auto; }
.list .detail { margin: 4px 0; overflow-wrap: anywhere; } .facts { color: var(--soft); font-size: 13px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 10px;
  margin: 0 0 12px; }
.tiles div { background: var(--card); border: 1px solid var(--faint); border-radius: 8px;
  padding: 10px 14px; }
.tiles { max-width: 100%; }
.tiles dt { color: var(--soft); font-size: 13px; } .tiles dd { margin: 0; font-size: 20px; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tiles dd small { display: block; font-size: 12px; font-weight: 400; color: var(--soft); }
figure { margin: 0 0 12px; background: var(--card); border: 1px solid var(--faint); border-radius: 8px;
  padding: 14px 16px; }
figcaption span { color: var(--soft); }
.plot { overflow-x: auto; margin-top: 8px; } .plot svg { display: block; width: 100%; min-width: 640px;
  height: auto; }
.grid { stroke: var(--faint); } .base { stroke: var(--rule); }
.tick { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; }
.area { fill: var(--s0); opacity: .18; } .line { fill: none; stroke: var(--s0); stroke-width: 2; }
.tip { fill: transparent; } g:hover rect, .tip:hover { opacity: .75; } .tip:hover { fill: var(--faint);
  opacity: .5; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0 0; padding: 0;
  font-size: 13px; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
details { margin-top: 8px; } summary { cursor: pointer; color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; max-height: 340px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; background: var(--card); }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--faint); vertical-align: top; }
th { font-weight: 600; white-space: nowrap; } td { overflow-wrap: break-word; max-width: 28em; }
 tbody th { font-weight: 400; } .n { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.framed { border: 1px solid var(--faint); border-radius: 8px; overflow-x: auto; }
.none { color: var(--soft); }
@media print { body { background: #fff; } .plot svg { min-width: 0; }
.list > li, figure { break-inside: avoid; } }
"""

SERIES: Final = "".join(
    f"\n.s{number} {{ fill: var(--s{number}); background: var(--s{number}); }}" for number in range(8)
)
