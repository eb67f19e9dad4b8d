import { gunzipSync } from 'node:zlib'
import { FirstBootFault } from './fault.js'

/** Maximum number of bytes of the decoded text. Its base64 form fits on the image with first-boot data. */
export const maxDecodedBytes = 262_144

const gzipMagic = Buffer.of(0x1f, 0x8b)

/**
 * Decodes the encodings that editors and clients apply: base64, gzip, UTF-16, a byte order mark.
 * @param isKnown returns true for a text that is a recognized form of user data, and therefore not base64
 */
export function decodeText(sent: string, isKnown: (text: string) => boolean): string {
  const text = decodeSent(sent, isKnown)
  if (text.includes('\0')) throw new FirstBootFault('contains NUL characters: send it as UTF-8')
  if (/\p{Surrogate}/u.test(text)) throw new FirstBootFault('contains unpaired surrogates: send it as UTF-8')
  if (Buffer.byteLength(text) > maxDecodedBytes)
    throw new FirstBootFault(`must be at most ${maxDecodedBytes} bytes after decoding`)
  return text
}

function decodeSent(sent: string, isKnown: (text: string) => boolean): string {
  if (isBinary(sent)) return decodeBytes(Buffer.from(sent, 'latin1'))
  if (sent.trimStart().startsWith(gzipStart)) throw new FirstBootFault('is damaged gzip data: send gzip data as base64')
  const text = cleanStart(sent)
  if (isKnown(text)) return text
  const bytes = decodeBase64(text)
  return bytes ? decodeBytes(bytes) : text
}

const gzipStart = '\u001f'
/** The first bytes of gzip data, and of UTF-16 and UTF-8 text with a byte order mark. */
const binaryStarts = ['\u001f\u008b', '\u00ff\u00fe', '\u00fe\u00ff', '\u00ef\u00bb\u00bf']

/** True if the text is binary data that a client has decoded as Latin-1, so that each character is one byte. */
function isBinary(text: string): boolean {
  const isStart = binaryStarts.some((start) => text.startsWith(start))
  return isStart && Buffer.from(text, 'latin1').toString('latin1') === text
}

/** Decodes base64. Ignores line breaks and padding. @returns undefined if the text is not base64 */
export function decodeBase64(text: string): Buffer | undefined {
  const compact = text.replace(/\s+/g, '').replace(/=+$/, '')
  const bytes = Buffer.from(compact, 'base64')
  const isBase64 = compact !== '' && bytes.toString('base64').replace(/=+$/, '') === compact
  return isBase64 ? bytes : undefined
}

function decodeBytes(bytes: Buffer): string {
  const plain = bytes.subarray(0, 2).equals(gzipMagic) ? gunzip(bytes) : bytes
  const charset = charsetOf(plain)
  try {
    return cleanStart(new TextDecoder(charset, { fatal: true }).decode(plain))
  } catch (cause) {
    throw new FirstBootFault(`is not valid ${charset.toUpperCase()} text`, { cause })
  }
}

/** @throws {FirstBootFault} */
export function gunzip(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: maxDecodedBytes })
  } catch (cause) {
    const isTooLarge = cause instanceof RangeError
    throw new FirstBootFault(
      isTooLarge ? `must be at most ${maxDecodedBytes} bytes after decoding` : 'is damaged gzip data',
      { cause },
    )
  }
}

/** Recognizes UTF-16 by its byte order mark, or by a NUL byte within the first character. */
function charsetOf(bytes: Buffer): 'utf-8' | 'utf-16le' | 'utf-16be' {
  const [first, second] = bytes
  if ((first === 0xff && second === 0xfe) || (first !== 0 && second === 0)) return 'utf-16le'
  if ((first === 0xfe && second === 0xff) || (first === 0 && second !== 0)) return 'utf-16be'
  return 'utf-8'
}

/**
 * Removes a byte order mark and leading blank lines, because cloud-init would not recognize the form after them.
 * Converts the lone carriage returns of old editors to line feeds.
 */
function cleanStart(text: string): string {
  const start = text.replace(/^[\uFEFF\s]+/, '')
  return start.includes('\n') ? start : start.replaceAll('\r', '\n')
}
