import { OpenConsoleRequest, OpenConsoleResponse } from '../proto/gen/berth/agent/v1/console.js'
import { frameOf } from './framing.js'

/*
 * What goes over a console, in frames: proto/berth/agent/v1/console.proto. What is typed and shown is plain bytes, which
 * nobody on their way encodes or decodes.
 */

export interface ConsoleBytes {
  readonly $case: 'data'
  readonly value: Buffer
}

export type ConsoleRequest = ConsoleBytes | NonNullable<OpenConsoleRequest['message']>
export type ConsoleResponse = ConsoleBytes | NonNullable<OpenConsoleResponse['message']>

export function requestFrame(message: ConsoleRequest): Buffer {
  if (message.$case === 'data') return frameOf(message.value, true)
  return frameOf(OpenConsoleRequest.encode({ message }).finish())
}

export function responseFrame(message: ConsoleResponse): Buffer {
  if (message.$case === 'data') return frameOf(message.value, true)
  return frameOf(OpenConsoleResponse.encode({ message }).finish())
}

/** @returns undefined for a message of a later version. @throws {Error} for what is no message */
export function readRequest(content: Buffer, isBytes: boolean): ConsoleRequest | undefined {
  return isBytes ? { $case: 'data', value: content } : OpenConsoleRequest.decode(content).message
}

/** @returns undefined for a message of a later version. @throws {Error} for what is no message */
export function readResponse(content: Buffer, isBytes: boolean): ConsoleResponse | undefined {
  return isBytes ? { $case: 'data', value: content } : OpenConsoleResponse.decode(content).message
}
