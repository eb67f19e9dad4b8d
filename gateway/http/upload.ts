import type { IncomingMessage } from 'node:http'
import { BerthError } from '../../shared/errors.js'

/** Requests with a body of any length that a handler reads, by their connection. */
const uploads = new WeakMap<object, IncomingMessage>()

/**
 * Prepares a request whose body the handler reads as a stream. The time limit for complete requests no longer applies:
 * the handler must limit slow clients.
 * @throws {BerthError} `unsupported_media_type`
 */
export function openUpload(request: IncomingMessage, types: readonly string[]): void {
  const { 'content-type': sent = '', 'content-encoding': encoding = 'identity' } = request.headers
  const [type = ''] = sent.toLowerCase().split(';')
  if (encoding !== 'identity' || (type !== '' && !types.includes(type.trim())))
    throw new BerthError(
      'invalid',
      'unsupported_media_type',
      `the body must be sent without Content-Encoding, and with one of these types: ${types.join(', ')}`,
    )
  uploads.set(request.socket, request)
}

/** True if the body of an upload is being received on the connection. */
export function isUploading(socket: object): boolean {
  const request = uploads.get(socket)
  return request !== undefined && !request.complete
}
