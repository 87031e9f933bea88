"""The style sheet and script of a report as a web page: for wide and narrow screens, and for print."""

STYLE = """
:root { color-scheme: light; --line: #ddd; --faint: #767676; }
* { box-sizing: border-box; }
html { font-size: 15px; }
body { font: 1rem/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #222; background: #fff;
  max-width: 110rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: .95rem; margin: 0 0 .4rem; }
h1, h2, h3, p, summary, figcaption { overflow-wrap: anywhere; }
p { max-width: 64rem; margin: .4rem 0; } .faint, .note { color: var(--faint); }
.note { font-size: .87rem; }
nav { font-size: .9rem; margin: .8rem 0 0; } nav a { margin-right: 1rem; } a { color: #0060a0; }
.parts { display: flex; flex-wrap: wrap; gap: 1.4rem 3rem; align-items: flex-start; margin: .8rem 0; }
.part { min-width: 0; max-width: 100%; margin: 0; }
.part .note { contain: inline-size; min-width: min(26rem, 100%); }
figcaption { font-size: .95rem; font-weight: 600; margin: 0 0 .4rem; contain: inline-size; }
.scroll { overflow-x: auto; background: linear-gradient(to right, #fff 40%, #fff0) 0 0 / 3rem 100% no-repeat local,
  linear-gradient(to left, #fff 40%, #fff0) 100% 0 / 3rem 100% no-repeat local,
  linear-gradient(to right, #0003, #0000) 0 0 / .7rem 100% no-repeat scroll,
  linear-gradient(to left, #0003, #0000) 100% 0 / .7rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .25rem .65rem; border-bottom: 1px solid var(--line); text-align: right; }
th { border-bottom: 2px solid #888; font-weight: 600; vertical-align: bottom; } .word { text-align: left; }
.long { min-width: 14rem; } td:first-child:not(.long) { white-space: nowrap; }
.best { font-weight: 700; background: #e6f2e6; }
tbody tr:hover { background: #f7f7f7; }
img { display: block; max-width: 100%; height: auto; }
summary { cursor: pointer; font-size: 1.25rem; font-weight: 600; margin: 2rem 0 .4rem; }
@media screen and (max-width: 600px) {
  table { font-size: .82rem; } th, td { padding: .25rem .35rem; }
  th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
  td:first-child:not(.long) { white-space: normal; }
  .long { min-width: 10rem; }
}
@media print {
  html { font-size: 10px; } body { max-width: none; padding: 0; } nav { display: none; }
  p { max-width: none; } h2, h3, summary, figcaption, section > p { break-after: avoid; }
  p, figure, tr, .short { break-inside: avoid; } tr:nth-child(-n+2) { break-after: avoid; }
  .scroll { overflow: visible; background: none; } .parts { gap: 1rem 2rem; }
  img { zoom: .7; min-width: 0 !important; }
  th, td { padding: .15rem .35rem; } td:first-child:not(.long) { white-space: normal; }
  .long { min-width: 0; overflow-wrap: anywhere; }
  details > summary { list-style: none; }
}
"""
SCRIPT = "addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => d.open = true));"
