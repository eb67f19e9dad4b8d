import { expect } from 'chai'
import { PassThrough } from 'node:stream'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import type { AgentConnection } from './agents/agent-connection.js'
import { WatchSession, type SyncedState } from './watch-session.js'

const reset = WatchResponse.fromPartial({ event: { $case: 'reset', value: {} } })
const synced = WatchResponse.fromPartial({ revision: 9, event: { $case: 'synced', value: { epoch: 'journal' } } })

function guest(id: number, name: string): Guest {
  return Guest.fromPartial({ id, uuid: `u${id}`, name })
}

function batchOf(guests: readonly Guest[]): WatchResponse {
  const encoded = guests.map((one) => Buffer.from(Guest.encode(one).finish()))
  return WatchResponse.fromPartial({ event: { $case: 'guests', value: { guests: encoded } } })
}

/** Returns the state, or the error, with which a session answers to these messages. */
async function answerTo(messages: readonly WatchResponse[], stored: Map<string, Guest>): Promise<SyncedState> {
  const stream = Object.assign(new PassThrough({ objectMode: true }), { cancel: () => undefined })
  const connection = { watch: { watch: () => stream }, target: { silenceMs: 60_000 }, close: () => undefined }
  return new Promise((resolve, reject) => {
    const handlers = {
      synced: async (state: SyncedState) => resolve(state),
      changed: () => undefined,
      ended: (reason: unknown) => reject(new Error('ended', { cause: reason })),
    }
    const host = { epoch: '', revision: 0, stored }
    const session = new WatchSession(connection as unknown as AgentConnection, host, handlers)
    for (const message of messages) stream.write(message)
    stream.once('close', () => session.close())
  })
}

describe('the complete state that an agent sends', () => {
  it('contains the guests of all batches', async () => {
    const messages = [reset, batchOf([guest(1, 'a'), guest(2, 'b')]), batchOf([guest(3, 'c')]), synced]
    const state = await answerTo(messages, new Map())
    if (state.kind !== 'all') throw new Error('only changes')
    expect(state.snapshot.values('guest').map(({ name }) => name)).to.deep.equal(['a', 'b', 'c'])
  })

  it('contains the same object as before for an unchanged guest, and a new object for a changed guest', async () => {
    const known = [guest(1, 'a'), guest(2, 'b')]
    const stored = new Map(known.map((one) => [Buffer.from(Guest.encode(one).finish()).toString('base64'), one]))
    const state = await answerTo([reset, batchOf([guest(1, 'a'), guest(2, 'new')]), synced], stored)
    if (state.kind !== 'all') throw new Error('only changes')
    const [first, second] = state.snapshot.values('guest')
    expect(first).to.equal(known[0])
    expect(second).to.deep.equal(guest(2, 'new'))
  })

  it('is rejected if one of its batches has invalid data', async () => {
    const broken = WatchResponse.fromPartial({ event: { $case: 'guests', value: { guests: [Buffer.from([255])] } } })
    const outcome = await answerTo([reset, broken, synced], new Map()).catch(() => 'refused')
    expect(outcome).to.equal('refused')
  })
})
