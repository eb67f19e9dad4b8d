import { status } from '@grpc/grpc-js'
import { expect } from 'chai'
import { PassThrough } from 'node:stream'
import type { ExportGuestRequest } from '../../../proto/gen/berth/agent/v1/export.js'
import { GrpcAgentClient } from './agent-client.js'
import type { AgentConnection } from './agent-connection.js'
import type { AgentLink } from './agent-link.js'

/** Returns a connection whose exports fail with a status, or contain the given text. */
function connectionOf(outcome: number | string): AgentConnection {
  const exportGuest = () => {
    const call = Object.assign(new PassThrough({ objectMode: true }), { cancel: () => undefined })
    if (typeof outcome === 'number') queueMicrotask(() => call.destroy(failure(outcome)))
    else for (const data of ['', outcome]) call.write({ data: Buffer.from(data) })
    return call.on('error', () => undefined)
  }
  return { exports: { exportGuest }, holdArchives: () => undefined } as unknown as AgentConnection
}

const failure = (code: number) => Object.assign(new Error('lost'), { code, details: 'lost', metadata: undefined })

function clientOf(...connections: AgentConnection[]): GrpcAgentClient {
  const link = {
    ready: () => undefined,
    connected: async () => connections.shift() ?? Promise.reject(new Error('offline')),
    lastPauseMs: () => 0,
    whileOnline: () => () => undefined,
  }
  return new GrpcAgentClient(link as unknown as AgentLink, 1000)
}

const request: ExportGuestRequest = { uuid: '', compression: 'none', includeLabels: false }

describe('an export whose connection fails before the agent answers', function () {
  it('begins again on the next connection', async () => {
    const body = await clientOf(connectionOf(status.CANCELLED), connectionOf('files')).exportGuest(request)
    const { value } = (await body[Symbol.asyncIterator]().next()) as { value: Buffer }
    expect(String(value)).to.equal('files')
    body.destroy()
  })

  it('fails if there is no other connection', async () => {
    const error = await clientOf(connectionOf(status.CANCELLED))
      .exportGuest(request)
      .catch((cause: unknown) => cause)
    expect(error).to.include({ code: 'agent_timeout' })
  })

  it('is not repeated if the agent refuses it', async () => {
    const client = clientOf(connectionOf(status.FAILED_PRECONDITION), connectionOf('files'))
    const error = await client.exportGuest(request).catch((cause: unknown) => cause)
    expect(error).to.be.instanceOf(Error)
  })
})
