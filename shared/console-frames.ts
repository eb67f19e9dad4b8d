import { OpenConsoleRequest, OpenConsoleResponse } from '../proto/gen/berth/agent/v1/console.js'
import { frameOf } from './framing.js'

/*
 * This module encodes and decodes the frames of a console (proto/berth/agent/v1/console.proto). Input and output are
 * plain bytes, which the gateway passes on without decoding them.
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

/** @returns undefined for a message type of a later version. @throws {Error} for a malformed message */
export function readRequest(content: Buffer, isBytes: boolean): ConsoleRequest | undefined {
  return isBytes ? { $case: 'data', value: content } : OpenConsoleRequest.decode(content).message
}

/** @returns undefined for a message type of a later version. @throws {Error} for a malformed message */
export function readResponse(content: Buffer, isBytes: boolean): ConsoleResponse | undefined {
  return isBytes ? { $case: 'data', value: content } : OpenConsoleResponse.decode(content).message
}
