import { expect } from 'chai'
import type { Body } from '../body.js'
import type { TestGateway } from './test-gateway.js'

/** UUIDs of containers that do not exist, for keys that are restricted to containers. */
export const boundUuids = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'] as const

export interface MadeKey {
  readonly id: number
  readonly key: string
}

/** Calls of the API for API keys. By default they use the administrator's key. */
export class KeyCalls {
  constructor(private readonly gateway: TestGateway) {}

  async make(fields: object, key?: string): Promise<MadeKey> {
    const reply = await this.gateway.request('POST', '/api-keys', {
      body: { name: 'made', ...fields },
      ...(key === undefined ? {} : { key }),
    })
    expect(reply.status, reply.text).to.equal(201)
    return reply.body.data as MadeKey
  }

  async find(id: number): Promise<Body> {
    const { body } = await this.gateway.request('GET', '/api-keys')
    return (body.data as { id: number }[]).find((row) => row.id === id)
  }

  /** Sends a request. @returns status and error code */
  async answerTo(...request: Parameters<TestGateway['request']>): Promise<[number, string | undefined]> {
    const { status, body } = await this.gateway.request(...request)
    return [status, body.code as string | undefined]
  }

  /** Sends a request with an API key. @returns 200, or the error code if the key is refused */
  async admits(key: string): Promise<string | number> {
    const [status, code] = await this.answerTo('GET', '/api-keys', { key })
    return code ?? status
  }
}
