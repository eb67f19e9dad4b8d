import { expect } from 'chai'
import { duplexPair, Readable } from 'node:stream'
import { pino } from 'pino'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'
import { waitFor } from '../../../test/support/wait.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { FrameStream } from '../moves/frame-stream.js'
import { CopyJournal } from '../record/copy-journal.js'
import { GuestStore } from '../record/guest-store.js'
import { encodeFirewall } from '../snapshots/backup-settings.js'
import { StandbySender, type StandbySenderParts } from './standby-sender.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const standbyId = '11112222-0000-4000-8000-000000000000'
const results = { takenAtMs: 0, takenBytes: 0, sentBytes: 0, triedAtMs: 0, failures: 0, error: '' }
const standby = { standbyId, hostId: 'b', intervalMinutes: 5, bandwidthMbps: 0, ...results }
const order = { uuid, standbyId, toAddress: 'b:7443', toSerials: [], ticket: '', refusal: '' }

function* endless() {
  for (;;) yield Buffer.alloc(64 * 1024)
}

/** A program that sends a snapshot until it is killed. */
class Program {
  readonly stream = Readable.from(endless())
  kills = 0
  #end: () => void = () => undefined
  readonly ended = new Promise<void>((resolve) => (this.#end = resolve))
  readonly kill = (): void => {
    this.kills++
    this.#end()
  }
}

describe('the sender of increments', () => {
  let changes: Changes
  let store: GuestStore
  let programs: Program[]
  let present: Set<string>
  let target: FrameStream
  let sender: StandbySender

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    store = new GuestStore(changes)
    store.insert({ ...stoppedGuest, uuid })
    store.update(uuid, { standby })
    programs = []
    present = new Set()
    const [near, far] = duplexPair()
    target = new FrameStream(far)
    const send = (): Program => {
      const program = new Program()
      programs.push(program)
      return program
    }
    const volumes = {
      snapshotsCount: false,
      listSnapshots: async () => [...present],
      deleteSnapshot: async (_uuid: string, id: string) => present.delete(id),
      snapshot: async () => ({ made: true, sizeBytes: 5, retainedBytes: 5 }),
      expectedRetained: async () => 0,
      areFreed: async () => true,
    }
    const driver = { volumeLimitBytes: () => 1024 ** 3 }
    const machines = { of: () => ({}), driverOf: () => driver }
    const transfers = { send, endSends: () => expect.fail('this would also end a move of the guest') }
    const log = pino({ level: 'silent' })
    const context = { config: {}, store, volumes, machines, transfers, log, now: () => 1000 }
    sender = new StandbySender({
      context,
      capacity: { readDisk: async () => ({ totalBytes: 100, usedBytes: 0 }) },
      busy: () => false,
      readKey: () => 'key',
      connect: async (_stateDir: string, _hostId: string, _order: unknown, signal: AbortSignal) => {
        signal.addEventListener('abort', () => near.destroy())
        return near
      },
    } as unknown as StandbySenderParts)
  })
  afterEach(() => changes.db.close())

  async function beginSend(): Promise<void> {
    sender.begin(order)
    expect(await target.nextMessage()).to.deep.equal({ kind: 'list' })
    await target.send({ snapshots: [] })
    await waitFor(() => programs.length > 0)
  }

  it('ends the programs of the increment, but not those of a move', async () => {
    await beginSend()
    await sender.end(uuid)
    expect(programs.map(({ kills }) => kills > 0)).to.deep.equal([true])
  })

  it('sends the firewall of the guest with the increment', async () => {
    const firewall = { enabled: true, defaultAction: 'DROP', rules: [] } as const
    store.update(uuid, { firewall })
    await beginSend()
    const request = { kind: 'disk', id: 'standby-11112222-1', firewall: encodeFirewall(firewall) }
    expect(await target.nextMessage()).to.deep.equal(request)
    await sender.end(uuid)
  })

  it('records why an increment has failed', async () => {
    await beginSend()
    await target.send({ error: { code: 'storage_full', message: 'the pool is full' } })
    await waitFor(() => store.get(uuid).standby?.failures === 1)
    const error = 'the target host reported: the pool is full'
    expect(store.get(uuid).standby).to.include({ error, triedAtMs: 1000, takenAtMs: 0 })
  })

  it('deletes snapshots of former standbys, but not the copy from which the guest is being restored', async () => {
    const former = '33334444-0000-4000-8000-000000000000'
    const [own, copy, old] = ['standby-11112222-1', 'standby-33334444-1', 'standby-55556666-1']
    const journal = new CopyJournal(changes.db)
    journal.put({ uuid, standbyId: former, fromHostId: 'a', diskGb: 1 })
    journal.putReceived(uuid, former, { [copy]: 7 })
    present = new Set([own, copy, old, 'kept'])
    await sender.sweep()
    expect([...present]).to.deep.equal([own, copy, 'kept'])
    journal.forget(uuid)
    await sender.sweep()
    expect([...present]).to.deep.equal([own, 'kept'])
  })
})
