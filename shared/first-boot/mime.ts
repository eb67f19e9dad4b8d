import { decodeBase64, gunzip } from './decode.js'
import { FirstBootFault } from './fault.js'
import { checkContent, findForm, isKnownType } from './forms.js'

/*
 * This module checks a MIME message as cloud-init's parser (Python's email package) reads it. cloud-init must handle
 * the type of each part and be able to decode its content. The parts are passed on as base64, because cloud-init
 * damages non-ASCII text and gzip data in other encodings.
 */

interface Entity {
  /** The original headers, each on one line. */
  readonly lines: readonly string[]
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

const mostNested = 10
/** Content types for which cloud-init ignores the declared type and detects the type from the content. */
const guessedTypes = ['text/plain', 'text/x-not-multipart', 'text/x-shellscript']
const gzipTypes = /^application\/(x-)?(gzip|gunzip|compress(ed)?|gzipped|gzip-compressed)$/

/** True if the text begins with headers, including a MIME header. A "From " line of a mail program can precede them. */
export function isMime(text: string): boolean {
  const headers = headersOf(withoutEnvelope(text))
  return (
    headers !== undefined && (headers.has('mime-version') || /^multipart\//i.test(headers.get('content-type') ?? ''))
  )
}

export function withoutEnvelope(text: string): string {
  return text.replace(/^From [^\n]*\n/, '')
}

/** A part of a MIME message: its content, and all headers except the transfer encoding. */
export interface MimePart {
  readonly headers: readonly string[]
  readonly content: Buffer
}

/** Returns the parts of a message that passed {@link checkMime}; gzip data is expanded. @throws {FirstBootFault} */
export function partsOfMime(text: string): MimePart[] {
  return leavesOf(parseEntity(text), 0).map((part) => {
    const isGzip = gzipTypes.test(typeOf(part))
    const content = isGzip ? gunzip(bytesOf(part)) : bytesOf(part)
    const dropped = isGzip ? rewrittenHeaders : /^(content-transfer-encoding|content-length|mime-version):/i
    const type = isGzip ? [`Content-Type: ${findForm(content.toString()) ?? 'text/plain'}`] : []
    return { headers: [...type, ...part.lines.filter((line) => !dropped.test(line))], content }
  })
}

const rewrittenHeaders = /^(content-type|content-transfer-encoding|content-length|mime-version):/i

/** @throws {FirstBootFault} if cloud-init would ignore or could not decode a part */
export function checkMime(text: string): void {
  const parts = leavesOf(parseEntity(text), 0)
  if (parts.length === 0) throw new FirstBootFault('the MIME message has no part')
  // If a message contains its own handler for parts, parts of all types are allowed.
  const hasHandler = parts.some((part) => typeOf(part) === 'text/part-handler')
  parts.forEach((part, index) => {
    try {
      checkPart(part, hasHandler)
    } catch (error) {
      if (!(error instanceof FirstBootFault)) throw error
      throw new FirstBootFault(`part ${index + 1} of the MIME message: ${error.message}`, { cause: error })
    }
  })
}

function checkPart(part: Entity, hasHandler: boolean): void {
  const stated = typeOf(part)
  const isGzip = gzipTypes.test(stated)
  const bytes = isGzip ? gunzip(bytesOf(part)) : bytesOf(part)
  const text = decodeCharset(bytes, part)
  const isGuessed = isGzip || guessedTypes.includes(stated)
  const type = (isGuessed ? findForm(text) : undefined) ?? (isGzip ? 'text/plain' : stated)
  if (isKnownType(type)) return checkContent(type, text)
  if (!hasHandler) throw new FirstBootFault(`cloud-init ignores the type ${type.slice(0, 60)}`)
}

function leavesOf(entity: Entity, depth: number): Entity[] {
  if (!typeOf(entity).startsWith('multipart/')) return [entity]
  if (depth >= mostNested) throw new FirstBootFault('the MIME message is nested too deeply')
  const boundary = parameterOf(entity, 'boundary')
  if (boundary === '') throw new FirstBootFault('the header of the MIME message names no boundary')
  return splitAt(entity.body, boundary).flatMap((text) => leavesOf(parseEntity(text), depth + 1))
}

/** @throws {FirstBootFault} if the final boundary is missing, because the message may have been cut off */
function splitAt(body: string, boundary: string): string[] {
  const parts: string[][] = []
  for (const line of body.split('\n')) {
    const bare = line.trimEnd()
    if (bare === `--${boundary}--`) return parts.map((lines) => lines.join('\n').replace(/\r$/, ''))
    if (bare === `--${boundary}`) parts.push([])
    else parts.at(-1)?.push(line)
  }
  throw new FirstBootFault('the MIME message is cut off: its last boundary is missing')
}

function parseEntity(text: string): Entity {
  const blank = /^\r?\n|\r?\n\r?\n/.exec(text)
  const end = blank ? blank.index : text.length
  const headers = headersOf(text.slice(0, end))
  const lines = headers ? unfoldedLines(text.slice(0, end)) : []
  return {
    lines,
    headers: headers ?? new Map<string, string>(),
    body: blank ? text.slice(end + blank[0].length) : '',
  }
}

/** @returns undefined if the text does not begin with headers */
function headersOf(text: string): Map<string, string> | undefined {
  const [head = ''] = text.split(/\r?\n\r?\n/, 1)
  const headers = new Map<string, string>()
  for (const line of unfoldedLines(head)) {
    const [, name, value = ''] = /^([A-Za-z0-9-]+):[ \t]*(.*)$/.exec(line) ?? []
    if (name === undefined) return undefined
    headers.set(name.toLowerCase(), value.trim())
  }
  return headers
}

function unfoldedLines(head: string): string[] {
  return head
    .replace(/\r?\n[ \t]+/g, ' ')
    .split(/\r?\n/)
    .filter(Boolean)
}

function typeOf({ headers }: Entity): string {
  return headers.get('content-type')?.split(';')[0]!.trim().toLowerCase() || 'text/plain'
}

function parameterOf({ headers }: Entity, name: string): string {
  const found = new RegExp(`;\\s*${name}=(?:"([^"]*)"|([^;\\s]+))`, 'i').exec(headers.get('content-type') ?? '')
  return found?.[1] ?? found?.[2] ?? ''
}

function bytesOf({ headers, body }: Entity): Buffer {
  const encoding = (headers.get('content-transfer-encoding') ?? '7bit').toLowerCase()
  if (encoding === 'base64') {
    const bytes = body.trim() === '' ? Buffer.alloc(0) : decodeBase64(body)
    if (!bytes) throw new FirstBootFault('is not valid base64')
    return bytes
  }
  if (encoding === 'quoted-printable') return decodeQuoted(body)
  if (['7bit', '8bit', 'binary'].includes(encoding)) return Buffer.from(body)
  throw new FirstBootFault(`has the unknown transfer encoding ${encoding.slice(0, 40)}`)
}

/** Decodes quoted-printable text (RFC 2045 6.7). */
function decodeQuoted(text: string): Buffer {
  const joined = Buffer.from(text.replace(/=[ \t]*\r?\n/g, '')).toString('latin1')
  const bytes = joined.replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1')
}

function decodeCharset(bytes: Buffer, part: Entity): string {
  const charset = parameterOf(part, 'charset') || 'utf-8'
  try {
    return new TextDecoder(charset, { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new FirstBootFault(`is not valid text in the character set ${charset.slice(0, 40)}`, { cause })
  }
}
