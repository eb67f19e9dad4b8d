import { expect } from 'chai'
import { duplexPair, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { pino } from 'pino'
import { conflict } from '../../../shared/errors.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { GuestStore } from '../record/guest-store.js'
import { changeOwnership, writeDetails } from './change-ownership.js'
import { FrameStream } from './frame-stream.js'
import type { GuestHistory } from '../record/guest-history.js'
import { noteReceived, readReceived } from './received-disks.js'
import { TransferReceiver, type ReceiverParts } from './receive-transfer.js'
import { noHistory } from '../../../test/support/guests/no-history.js'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'

const gib = 1024 ** 3
const uuid = 'u1'

describe('the receiver of a guest from another host', () => {
  let changes: Changes
  let store: GuestStore
  let isExpected: boolean
  let usedBytes: number
  let kills: number
  let confirmed: string[]
  let listed: string[]
  let finishedWith: string[]
  let histories: string[]

  const history: GuestHistory = {
    ...noHistory,
    position: () => ({ revision: 7, atMs: 5 }),
    receive: ({ transferId }, raw) => void histories.push(`${transferId} ${raw}`),
  }

  const parts = (): ReceiverParts => ({
    log: pino({ level: 'silent' }),
    readPool: async () => ({ totalBytes: 100 * gib, usedBytes }),
    received: {
      check: () => {
        if (!isExpected)
          throw conflict('guest_moving', 'the target host does not expect the container from this host in this move')
      },
      checkNewest: async () => Promise.reject(conflict('guest_changed', 'the addresses were changed')),
      prepare: () => expect.fail('the guest does not run'),
      finish: async (_transfer, { snapshot }) => void finishedWith.push(snapshot),
    },
    live: { confirm: () => expect.fail(), openMemory: () => expect.fail() },
    context: {
      store,
      history,
      transfers: {
        send: () => expect.fail('the target sends nothing'),
        receive: async () => {
          const stream = new Writable({ write: (_chunk, _encoding, done) => done() })
          return { stream, ended: finished(stream), kill: () => void kills++ }
        },
        countReceived: () => expect.fail('only for standbys'),
        endSends: () => expect.fail('the target sends nothing'),
        discard: () => expect.fail('only for standbys'),
        confirm: async (_uuid, id) => void confirmed.push(id),
        listComplete: async (_uuid, ids) => (listed = [...ids]),
      },
    },
  })

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    store = new GuestStore(changes)
    store.insert(stoppedGuest)
    changeOwnership(store, uuid, { kind: 'appoint', generation: 1, isOwner: false })
    writeDetails(store, uuid, { fromHostId: 'host-a', mappings: [] })
    isExpected = true
    usedBytes = kills = 0
    confirmed = []
    listed = []
    finishedWith = []
    histories = []
  })
  afterEach(() => changes.db.close())

  /** Opens a connection to a receiver. `running` resolves when the receiver has ended the connection. */
  function connect(checkMs?: number): { source: FrameStream; running: Promise<void> } {
    const [near, far] = duplexPair()
    const transfer = { moveId: 'm1', fromHostId: 'host-a', uuid }
    return { source: new FrameStream(near), running: new TransferReceiver(parts(), transfer, far, { checkMs }).run() }
  }

  async function sendData(source: FrameStream, request: object, data: string, bytes = data.length): Promise<unknown> {
    await source.send(request)
    await source.sendData(Buffer.from(data))
    await source.send({ kind: 'end', bytes })
    return source.nextMessage()
  }

  const codeOf = (answer: unknown): string => (answer as { error: { code: string } }).error.code

  it('records a completely received snapshot, and can finish the move with this snapshot', async () => {
    const { source } = connect()
    expect(await sendData(source, { kind: 'disk', id: 'a' }, 'disk')).to.deep.equal({})
    expect(readReceived(store, uuid)).to.deep.equal({ a: 4 })
    await source.send({ kind: 'list' })
    expect(await source.nextMessage()).to.deep.equal({ snapshots: ['a'], history: { revision: 7, atMs: 5 } })
    expect(await sendData(source, { kind: 'finish', id: 'a' }, '{}')).to.deep.equal({})
    expect([confirmed, listed, finishedWith, kills]).to.deep.equal([['a'], ['a'], ['a'], 1])
  })

  it('deletes the data of earlier transfers of the move when it has received a newer transfer', async () => {
    const { source } = connect()
    for (const id of ['a', 'move-m1-1', 'move-m1-2']) await sendData(source, { kind: 'disk', id }, 'disk')
    expect(readReceived(store, uuid)).to.deep.equal({ a: 4, 'move-m1-2': 8 })
    expect(listed).to.deep.equal(['a', 'move-m1-2'])
  })

  it('no longer counts a snapshot as complete if its second transfer fails', async () => {
    noteReceived(store, uuid, 'm1', { id: 'a', bytes: 4 })
    const { source, running } = connect()
    expect(codeOf(await sendData(source, { kind: 'disk', id: 'a' }, 'disk', 5))).to.equal('bad_stream')
    expect(readReceived(store, uuid)).to.deep.equal({})
    expect(confirmed).to.deep.equal([])
    await running
  })

  it('stores the history of the guest only while the move is expected', async () => {
    expect(await sendData(connect().source, { kind: 'history' }, 'past')).to.deep.equal({})
    const late = connect().source
    await late.send({ kind: 'history' })
    isExpected = false
    await late.sendData(Buffer.from('late'))
    await late.send({ kind: 'end', bytes: 4 })
    expect(codeOf(await late.nextMessage())).to.equal('guest_moving')
    expect(histories).to.deep.equal(['m1 past'])
  })

  it('refuses to finish with an incomplete snapshot', async () => {
    for (const id of ['a', 'constructor'])
      expect(codeOf(await sendData(connect().source, { kind: 'finish', id }, '{}'))).to.equal('bad_stream')
    expect(finishedWith).to.deep.equal([])
  })

  it('refuses data when all snapshots of the move together exceed their limit', async () => {
    noteReceived(store, uuid, 'm1', { id: 'a', bytes: 20 * gib })
    expect(codeOf(await sendData(connect().source, { kind: 'disk', id: 'b' }, 'disk'))).to.equal('bad_stream')
    expect(kills).to.equal(1)
  })

  it('refuses data when only the reserve of the pool is free', async () => {
    usedBytes = 99 * gib
    expect(codeOf(await sendData(connect().source, { kind: 'disk', id: 'a' }, 'disk'))).to.equal('storage_full')
    expect(confirmed).to.deep.equal([])
  })

  it('closes the connection and kills the receiving program if the move ends during the transfer', async () => {
    const { source, running } = connect(5)
    await source.send({ kind: 'disk', id: 'a' })
    await source.sendData(Buffer.from('disk'))
    isExpected = false
    await running
    expect([kills, confirmed]).to.deep.equal([1, []])
  })

  it('refuses an invalid description, and returns the error of the check', async () => {
    expect(codeOf(await sendData(connect().source, { kind: 'check' }, '{}'))).to.equal('guest_changed')
  })
})
