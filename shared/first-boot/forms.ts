import { parseDocument, isMap, isScalar, isSeq, type Document } from 'yaml'
import { FirstBootFault } from './fault.js'

/*
 * The forms of user data that cloud-init recognizes by the first line. Each form is checked for content that cloud-init
 * would silently ignore. Source: cloudinit/handlers/__init__.py (INCLUSION_TYPES_MAP) and the handlers of cloud-init 22
 * to 25.
 */

/** The first lines of all forms of user data. Longer lines come first, because a shorter one can be their beginning. */
const starts: readonly (readonly [start: string, type: string])[] = [
  ['#cloud-config-archive', 'text/cloud-config-archive'],
  ['#cloud-config-jsonp', 'text/cloud-config-jsonp'],
  ['## template: jinja', 'text/jinja2'],
  ['#cloud-boothook', 'text/cloud-boothook'],
  ['#cloud-config', 'text/cloud-config'],
  ['#include-once', 'text/x-include-once-url'],
  ['#part-handler', 'text/part-handler'],
  ['#include', 'text/x-include-url'],
  ['#!', 'text/x-shellscript'],
]

const contentChecks: Readonly<Record<string, (text: string) => void>> = {
  'text/x-shellscript': checkScript,
  'text/x-shellscript-per-boot': checkScript,
  'text/x-shellscript-per-instance': checkScript,
  'text/x-shellscript-per-once': checkScript,
  'text/cloud-config': checkConfig,
  'text/cloud-config-archive': checkArchive,
  'text/cloud-config-jsonp': checkPatch,
  'text/cloud-boothook': checkBoothook,
  'text/part-handler': () => undefined,
  'text/jinja2': checkTemplate,
  'text/x-include-url': checkIncludes,
  'text/x-include-once-url': checkIncludes,
}

/** @returns the content type that cloud-init detects; undefined if cloud-init would ignore the text */
export function findForm(text: string): string | undefined {
  const lower = text.slice(0, 100).trimStart().toLowerCase()
  return starts.find(([start]) => lower.startsWith(start))?.[1]
}

export function isKnownType(type: string): boolean {
  return Object.hasOwn(contentChecks, type)
}

/** @throws {FirstBootFault} if cloud-init would ignore the content or could not run it */
export function checkContent(type: string, text: string): void {
  contentChecks[type]?.(text)
}

export const knownStarts = starts.map(([start]) => start).join(', ')

function checkScript(text: string): void {
  if (!/^#![ \t]*\/[^\s]/.test(text))
    throw new FirstBootFault('a script must begin with "#!" and the absolute path of its interpreter')
}

/** Refuses LF after line 1 with CRLF after line 2. cloud-init would keep the CR in the interpreter's path in line 2. */
function checkBoothook(text: string): void {
  const script = text.trimStart().slice('#cloud-boothook'.length)
  if (/^\n/.test(script) && /^[^\n]*\r\n/.test(script.trimStart()))
    throw new FirstBootFault('a boothook must not mix line endings in its first lines')
  checkScript(script.trimStart())
}

function checkConfig(text: string): void {
  const { contents } = parseYaml(text)
  if (contents !== null && !isMap(contents) && !(isScalar(contents) && contents.value === null))
    throw new FirstBootFault('a #cloud-config must be a YAML mapping')
}

/** Parses YAML as cloud-init does. Its parser, PyYAML, accepts duplicate keys in a mapping and uses the last one. */
function parseYaml(text: string): Document {
  const document = parseDocument(text, {
    version: '1.1',
    uniqueKeys: false,
    prettyErrors: true,
    logLevel: 'silent',
  })
  const fault = document.errors[0] ?? document.warnings[0]
  if (fault) throw new FirstBootFault(`is not valid YAML: ${fault.message.split('\n')[0]!.slice(0, 200)}`)
  return document
}

function checkArchive(text: string): void {
  const document = parseYaml(text)
  if (!isSeq(document.contents)) throw new FirstBootFault('a #cloud-config-archive must be a YAML list')
  const entries = toPlain(document) as unknown[]
  entries.forEach((entry, index) => {
    try {
      checkEntry(entry)
    } catch (error) {
      if (!(error instanceof FirstBootFault)) throw error
      throw new FirstBootFault(`entry ${index + 1} of the archive: ${error.message}`, { cause: error })
    }
  })
}

function toPlain(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 })
  } catch (cause) {
    throw new FirstBootFault('has too many YAML aliases', { cause })
  }
}

/** Types that cloud-init does not process inside an archive: includes and other archives. */
const neverInArchives = ['text/x-include-url', 'text/x-include-once-url', 'text/cloud-config-archive']

function checkEntry(entry: unknown): void {
  const { content, type } = typeof entry === 'string' ? { content: entry, type: undefined } : fieldsOf(entry)
  if (typeof content !== 'string') throw new FirstBootFault('has no text in the field content')
  const found = typeof type === 'string' ? type : (findForm(content) ?? 'text/cloud-config')
  if (!isKnownType(found) || neverInArchives.includes(found))
    throw new FirstBootFault(`cloud-init ignores the type ${found.slice(0, 60)} in an archive`)
  checkContent(found, content)
}

function fieldsOf(entry: unknown): { readonly content?: unknown; readonly type?: unknown } {
  if (typeof entry === 'object' && entry !== null && !Array.isArray(entry)) return entry
  throw new FirstBootFault('must be text or a mapping')
}

function checkPatch(text: string): void {
  try {
    if (Array.isArray(JSON.parse(text.trimStart().slice('#cloud-config-jsonp'.length)))) return
  } catch (cause) {
    throw new FirstBootFault('a #cloud-config-jsonp must be valid JSON', { cause })
  }
  throw new FirstBootFault('a #cloud-config-jsonp must be a JSON list')
}

/** Accepts cloud-config, a script, or a Jinja block that can produce either. Every version of cloud-init runs these. */
function checkTemplate(text: string): void {
  const rest = text.trimStart().split('\n').slice(1).join('\n').trimStart()
  const form = findForm(rest)
  if (form !== 'text/cloud-config' && form !== 'text/x-shellscript' && !rest.startsWith('{'))
    throw new FirstBootFault('a Jinja template must continue with #cloud-config or a script in its second line')
}

function checkIncludes(text: string): void {
  const urls = text
    .split(/\r?\n/)
    .map((line) => line.replace(/^\s*#include(-once)?/i, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  if (urls.length === 0) throw new FirstBootFault('an #include must contain a URL')
  const wrong = urls.find((url) => !/^(https?|ftp|file):\/\/\S+$/i.test(url) && !/^\/\S/.test(url))
  if (wrong !== undefined) throw new FirstBootFault('an #include must have one URL in each line')
}
