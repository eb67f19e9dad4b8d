import ts from 'typescript'

/** A piece of prose in a file, with the line in which it begins. */
export interface Text {
  readonly line: number
  readonly text: string
}

type Read = (source: string, path: string) => Text[]

const readers: Readonly<Record<string, Read>> = {
  ts: readTypeScript,
  mjs: readTypeScript,
  svelte: readMarked(/<!--([\s\S]*?)-->|\/\*([\s\S]*?)\*\/|(?:^|\s)\/\/ (.*)/g),
  proto: readMarked(/\/\/ (.*)/g),
  md: readMarkdown,
  sh: readMarked(/(?:^|\s)# (.*)|\b(?:say|note|fail|echo) '([^']*)'|\b(?:say|note|fail|echo) "([^"]*)"/g),
  py: readMarked(/(?:^|\s)# (.*)|"""([\s\S]*?)"""/g),
  service: readMarked(/(?:^|\s)# (.*)/g),
  pl: readMarked(/(?:^|\s)# (.*)/g),
  yaml: readMarked(/# (.*)/g),
}

/** Returns the prose in the comments, messages, titles and documents of a file. */
export function textsOf(path: string, source: string): Text[] {
  const kind = /\.(\w+)$/.exec(path)?.[1] ?? 'sh'
  return readers[kind]?.(source, path) ?? []
}

function readTypeScript(source: string, path: string): Text[] {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, false)
  const found = new Map<number, string>()
  const visit = (node: ts.Node): void => {
    for (const { pos, end } of commentsAt(source, node)) found.set(pos, withoutMarks(source.slice(pos, end)))
    const text = proseOf(node)
    if (text !== undefined) found.set(node.getStart(file), text)
    ts.forEachChild(node, visit)
  }
  visit(file)
  return [...found].map(([position, text]) => ({ line: lineAt(source, position), text }))
}

function commentsAt(source: string, node: ts.Node): ts.CommentRange[] {
  return [
    ...(ts.getLeadingCommentRanges(source, node.getFullStart()) ?? []),
    ...(ts.getTrailingCommentRanges(source, node.end) ?? []),
  ]
}

/** Returns the text of a template, or of a string with several words. A single word is not prose. */
function proseOf(node: ts.Node): string | undefined {
  if (ts.isTemplateExpression(node))
    return [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('X')
  if (!ts.isStringLiteralLike(node) || !/[A-Za-z]+ [a-z]+/.test(node.text)) return undefined
  return node.text
}

function withoutMarks(comment: string): string {
  return comment
    .replace(/^\/\*+|\*+\/$|^\/\/+|^\s*\* ?/gm, '')
    .replace(/\s+/g, ' ')
    .trim()
}

function readMarked(pattern: RegExp): Read {
  return (source) =>
    [...source.matchAll(new RegExp(pattern, 'gm'))].map((match) => ({
      line: lineAt(source, match.index),
      text: withoutMarks(match.slice(1).find((part) => part !== undefined) ?? ''),
    }))
}

/** Returns the paragraphs, list items and table cells of a document, without code. */
function readMarkdown(source: string): Text[] {
  const prose = source.replace(/```[\s\S]*?```/g, (code) => code.replace(/[^\n]/g, '')).replace(/`[^`\n]*`/g, 'X')
  return prose
    .split('\n')
    .flatMap((line, index) =>
      line.split('|').map((cell) => ({ line: index + 1, text: cell.replace(/^[\s#*>-]+/, '').trim() })),
    )
}

function lineAt(source: string, position: number): number {
  return source.slice(0, position).split('\n').length
}
