/*
 * Converts the text of a terminal to a picture for the documentation:
 *   tmux capture-pane -pe | node --import tsx scripts/terminal-picture.ts >docs/pictures/cli.svg
 * The picture of a drain comes from a test:
 *   BERTH_TEST_PICTURES=1 scripts/test test/cli/moves.test.ts
 *   node --import tsx scripts/terminal-picture.ts <test/browser/out/drain.ansi >docs/pictures/drain.svg
 */
import { readFileSync } from 'node:fs'

const [columnWidth, lineHeight, margin] = [8.4, 18, 16]
const background = '#16181d'
const foreground = '#d7dae0'
/** The eight colors of terminals, and their bright versions. */
const colors = ['#5c6370', '#e06c75', '#98c379', '#e5c07b', '#61afef', '#c678dd', '#56b6c2', foreground]

interface Style {
  readonly color: string
  readonly isBold: boolean
  readonly isReverse: boolean
}

interface Run extends Style {
  readonly column: number
  readonly text: string
}

const plain: Style = { color: foreground, isBold: false, isReverse: false }

function styleAfter(style: Style, code: number): Style {
  if (code === 0) return plain
  if (code === 1) return { ...style, isBold: true }
  if (code === 7) return { ...style, isReverse: true }
  if (code === 27) return { ...style, isReverse: false }
  if (code === 39) return { ...style, color: foreground }
  const isColor = (code >= 30 && code <= 37) || (code >= 90 && code <= 97)
  return isColor ? { ...style, color: colors[code % 10] ?? foreground } : style
}

/** Splits a line with escape sequences into texts of one style. */
function runsOf(line: string): Run[] {
  let [style, column] = [plain, 0]
  // The odd parts are the parameters of escape sequences.
  // eslint-disable-next-line no-control-regex -- the pattern matches escape sequences
  return line.split(/\u001b\[([\d;]*)m/).flatMap((part, index) => {
    if (index % 2 === 1) style = part.split(';').reduce((now, code) => styleAfter(now, Number(code)), style)
    if (index % 2 === 1 || part === '') return []
    const run = { ...style, column, text: part }
    column += part.length
    return [run]
  })
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

function drawRun({ column, text, color, isBold, isReverse }: Run, row: number): string {
  const [x, y] = [margin + column * columnWidth, margin + row * lineHeight]
  const width = (text.length * columnWidth).toFixed(1)
  const box = isReverse
    ? `<rect x="${x.toFixed(1)}" y="${y}" width="${width}" height="${lineHeight}" fill="${color}"/>`
    : ''
  if (text.trim() === '') return box
  const weight = isBold ? ' font-weight="bold"' : ''
  const fill = isReverse ? background : color
  return `${box}<text x="${x.toFixed(1)}" y="${y + 13}" fill="${fill}"${weight} textLength="${width}" xml:space="preserve">${escaped(text)}</text>`
}

const lines = readFileSync(0, 'utf8').trimEnd().split('\n')
const columns = Math.max(
  ...lines.map((line) => Math.max(0, ...runsOf(line).map(({ column, text }) => column + text.length))),
)
const [width, height] = [Math.ceil(columns * columnWidth + 2 * margin), lines.length * lineHeight + 2 * margin]
const texts = lines.flatMap((line, row) => runsOf(line).map((run) => drawRun(run, row)))
console.log(
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`,
    `<rect width="100%" height="100%" rx="8" fill="${background}"/>`,
    ...texts.filter(Boolean),
    '</svg>',
  ].join('\n'),
)
