import { randomUUID } from 'node:crypto'
import { linkSync, mkdirSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import type { GuestContext } from '../../agent/guests/context.js'
import { planSpaceLimit } from '../../agent/guests/snapshots/plan-snapshot-space.js'
import type { GuestRecord } from '../../agent/guests/record/record.js'
import { noSchedule, unmeasuredSpace } from '../../agent/guests/record/snapshots-and-backups.js'
import { forgetSnapshot } from '../../agent/guests/snapshots/snapshots.js'
import { awaitSettled, deleteCounted, takeCounted, takeHidden } from '../../agent/guests/snapshots/snapshot-space.js'
import { GuestStore } from '../../agent/guests/record/guest-store.js'
import { volumeLimitOf } from '../../agent/guests/snapshots/volume-bound.js'
import { Changes } from '../../agent/state/changes.js'
import { openDatabase } from '../../agent/state/database.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { removePool } from '../../agent/storage/remove.js'
import { Trash } from '../../agent/storage/trash.js'
import { Volumes } from '../../agent/storage/volumes.js'
import { MemoryDriver } from '../support/memory/memory-driver.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const log = pino({ level: 'silent' })
const mib = 1024 ** 2
const gib = 1024 ** 3
const boughtMib = 32
const boughtBytes = boughtMib * mib
/** Tolerance for metadata of btrfs, which counts as used space, and for space that btrfs reserves before writes. */
const slackMib = 5

const write = (path: string, megabytes: number): void =>
  void sh('dd', 'if=/dev/urandom', `of=${path}`, 'bs=1M', `count=${megabytes}`, 'conv=fsync')

/** Ways to fill a disk before its snapshots are taken. `megabytes` is the space that the snapshots retain. */
const disks: readonly (readonly [name: string, megabytes: number, fill: (root: string) => void])[] = [
  ['contains no data', 0, () => undefined],
  [
    'contains as much data as its limit permits',
    boughtMib - slackMib,
    (root) => write(join(root, 'old-0'), boughtMib - slackMib),
  ],
  [
    'contains reflinks',
    12,
    (root) => {
      write(join(root, 'old-0'), 12)
      for (let i = 1; i < 7; i++) sh('cp', '--reflink=always', join(root, 'old-0'), join(root, `old-${i}`))
    },
  ],
  [
    'contains a sparse file',
    1,
    (root) => {
      write(join(root, 'old-0'), 1)
      truncateSync(join(root, 'old-0'), 10 * gib)
    },
  ],
  [
    'contains hard links',
    12,
    (root) => {
      write(join(root, 'old-0'), 12)
      for (let i = 1; i < 7; i++) linkSync(join(root, 'old-0'), join(root, `old-${i}`))
    },
  ],
  [
    'contains many small files',
    12,
    (root) => {
      mkdirSync(join(root, 'old-many'))
      for (let i = 0; i < 900; i++) writeFileSync(join(root, 'old-many', String(i)), Buffer.alloc(9000, i))
    },
  ],
]

describe('the space that snapshots retain', function () {
  const scratch = scratchDirectory('btest-snapspace')
  const config = testStorage(scratch.path)
  let pool: Pool
  let lab: Lab

  before(async () => {
    pool = await openPool(config)
    sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/small-1`)
    lab = new Lab(pool)
  })
  after(async () => {
    await removePool(config, log)
    scratch.wipe()
  })
  afterEach(() => lab.clear())

  for (const [name, megabytes, fill] of disks)
    for (const count of [0, 1, 5])
      it(`does not reduce the usable size of a disk that ${name} and has ${count === 0 ? 'no' : count} ${count === 1 ? 'snapshot' : 'snapshots'}`, async () => {
        const uuid = await lab.create()
        const root = lab.volumes.pathOf(uuid)
        fill(root)
        const ids = await lab.takeSeveral(uuid, count, (i) => write(join(root, `own-${i}`), 1))
        for (const file of readdirSync(root)) rmSync(join(root, file), { recursive: true })
        lab.sync()
        write(join(root, 'new'), boughtMib - slackMib) // fills the emptied disk
        const allowance = lab.allowanceMib(uuid)
        expect(allowance).to.be.within(count === 0 ? 0 : megabytes - 1, count === 0 ? 0 : megabytes + count + 2)
        expect(() => write(join(root, 'more'), allowance + slackMib + 8)).to.throw(/quota exceeded/i)
        rmSync(join(root, 'more'), { force: true })
        if (ids[0] !== undefined) {
          await lab.restore(uuid, ids[0])
          rmSync(join(root, 'old-0'), { force: true })
          write(join(root, 'after'), boughtMib - slackMib) // a restored disk can also be filled completely
        }
        for (const id of ids) await lab.delete(uuid, id)
        expect(lab.allowanceMib(uuid)).to.equal(0)
        expect((await lab.volumes.ensureLimits(new Map([[uuid, boughtBytes]]))).length).to.equal(0)
      })

  it('is limited, and a snapshot that would exceed the limit is rejected without a trace', async () => {
    const uuid = await lab.create(boughtBytes)
    const root = lab.volumes.pathOf(uuid)
    write(join(root, 'data'), 20)
    await lab.takeSeveral(uuid, 1)
    write(join(root, 'data'), 20)
    expect(await refusal(lab.take(uuid, 'second'))).to.match(/snapshot_space_exceeded/)
    expect(await lab.volumes.listSnapshots(uuid)).to.deep.equal(['s0'])
    await lab.delete(uuid, 's0')
    await lab.take(uuid, 'second')
    expect(lab.record(uuid).snapshotSpace.retainedBytes / mib).to.be.within(19, 23)
  })

  it('raises the disk limit of a guest by at most the snapshot limit plus the size of the disk', async () => {
    const uuid = await lab.create(boughtBytes)
    const root = lab.volumes.pathOf(uuid)
    for (let round = 0; round < 5; round++) {
      const grow = (): void => write(join(root, `more-${round}`), 200)
      expect(grow).to.throw(/quota exceeded/i)
      lab.sync()
      await lab.takeOwn(uuid, 'before-1') // takes a snapshot as the agent does for a backup
      expect(lab.allowanceMib(uuid)).to.be.at.most(2 * boughtMib)
      await lab.volumes.deleteSnapshot(uuid, 'before-1')
      await lab.settled(uuid)
      expect(lab.allowanceMib(uuid)).to.equal(0)
    }
  })

  it('is enough for a guest to overwrite its whole disk during a temporary snapshot', async () => {
    const uuid = await lab.create()
    const root = lab.volumes.pathOf(uuid)
    write(join(root, 'data'), boughtMib - slackMib)
    await lab.takeOwn(uuid, 'sent-1')
    rmSync(join(root, 'data'))
    write(join(root, 'data'), boughtMib - slackMib)
  })

  it('shrinks to the space of the remaining snapshots, no matter which snapshot is deleted', async () => {
    const uuid = await lab.create()
    const root = lab.volumes.pathOf(uuid)
    write(join(root, 'data'), 12)
    await lab.take(uuid, 'first')
    write(join(root, 'data'), 12)
    await lab.take(uuid, 'second')
    write(join(root, 'data'), 12)
    await lab.take(uuid, 'third')
    expect(lab.allowanceMib(uuid)).to.be.within(36, 39)
    await lab.delete(uuid, 'third')
    expect(lab.allowanceMib(uuid)).to.be.within(24, 26)
    await lab.delete(uuid, 'first')
    expect(lab.allowanceMib(uuid)).to.be.within(12, 26)
    await lab.take(uuid, 'fourth')
    expect(lab.allowanceMib(uuid)).to.be.within(24, 26)
    await lab.delete(uuid, 'second')
    expect(lab.allowanceMib(uuid)).to.be.within(12, 13)
  })

  it('is estimated for a guest until the agent has measured it', async () => {
    const uuid = await lab.create()
    const root = lab.volumes.pathOf(uuid)
    write(join(root, 'data'), 20)
    const { sizeBytes = 0 } = await lab.volumes.snapshot(uuid, 'old')
    lab.note(uuid, 'old', sizeBytes)
    expect(lab.record(uuid).snapshotSpace).to.deep.equal(unmeasuredSpace)
    expect(lab.limitMib(uuid)).to.be.within(boughtMib + 19, boughtMib + 22)
    await lab.settled(uuid)
    expect(lab.limitMib(uuid)).to.be.within(boughtMib + 19, boughtMib + 22)
    rmSync(join(root, 'data'))
    write(join(root, 'data'), boughtMib - slackMib)
  })

  it('is also limited with classic btrfs quotas, which do not count it towards the disk limit', async () => {
    const theirs = { ...config, pool: `${scratch.path}/theirs`, loop_file: `${scratch.path}/theirs.img` }
    writeFileSync(theirs.loop_file, '')
    truncateSync(theirs.loop_file, 2 * gib)
    sh('mkfs.btrfs', '-q', theirs.loop_file)
    const classic = new Lab(await openPool(theirs))
    sh('btrfs', '-q', 'subvolume', 'create', `${classic.pool.images}/small-1`)
    const uuid = await classic.create(50 * mib)
    const root = classic.volumes.pathOf(uuid)
    for (const id of ['one', 'two']) {
      write(join(root, 'data'), 20)
      await classic.take(uuid, id)
      expect(classic.allowanceMib(uuid)).to.equal(0)
    }
    expect(classic.record(uuid).snapshotSpace.retainedBytes / mib).to.be.within(39, 43)
    write(join(root, 'data'), 20)
    expect(await refusal(classic.take(uuid, 'three'))).to.match(/snapshot_space_exceeded/)
    classic.sync()
    await classic.delete(uuid, 'one')
    expect(classic.record(uuid).snapshotSpace.retainedBytes / mib).to.be.within(19, 24)
    await classic.take(uuid, 'three')
    rmSync(join(root, 'data'))
    classic.sync()
    write(join(root, 'data'), boughtMib - slackMib)
    for (const id of ['two', 'three']) await classic.delete(uuid, id)
    expect(classic.record(uuid).snapshotSpace.retainedBytes).to.equal(0)
    await removePool(theirs, log)
  })
})

/** Calls functions of the agent for real volumes. The guests exist only in the agent's journal. */
class Lab {
  readonly volumes: Volumes
  readonly #trash: Trash
  readonly #store = new GuestStore(new Changes(openDatabase(':memory:')))
  readonly #context: GuestContext

  constructor(readonly pool: Pool) {
    this.#trash = new Trash(pool, log)
    this.volumes = new Volumes(pool, this.#trash)
    this.#context = {
      store: this.#store,
      volumes: this.volumes,
      log,
      now: Date.now,
      machines: {
        driverOf: () => new MemoryDriver({}),
        of: ({ uuid }: GuestRecord) => ({ uuid, limits: { diskBytes: boughtBytes } }),
      },
    } as unknown as GuestContext
  }

  /** @param spaceBytes limit of the space that snapshots retain */
  async create(spaceBytes = 16 * boughtBytes): Promise<string> {
    const uuid = randomUUID()
    const limits = { vcpuMilli: 1000, ramMb: 256, diskGb: 1 }
    const rates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }
    const id = this.#store.list().length + 1
    this.#store.insert({
      uuid,
      id,
      name: `g${id}`,
      status: 'running',
      wanted: 'running',
      userIdSlot: id,
      spec: { virtualization: 'lxc', templateId: 'small-1', limits: { ...limits, ...rates } },
      ipv4: `10.64.0.${id + 1}`,
      mac: `02:be:0a:40:00:${id.toString(16).padStart(2, '0')}`,
      login: null,
      hasPassword: false,
      createdAtMs: 5,
      portMappings: [],
      publicIpv4s: [],
      ipv6Addresses: [],
      firewall: { enabled: false, defaultAction: 'ACCEPT', rules: [] },
      expiresAtMs: 0,
      traffic: {
        mode: 'total',
        monthlyGb: 0,
        inGb: 0,
        outGb: 0,
        action: 'stop',
        throttleMbps: 0,
        resetDay: 0,
      },
    })
    this.#store.update(uuid, { snapshotSpace: { ...unmeasuredSpace, limitBytes: spaceBytes } })
    expect(planSpaceLimit(this.record(uuid))).to.equal(spaceBytes)
    if (spaceBytes === 16 * boughtBytes) this.#store.update(uuid, { snapshotSpace: unmeasuredSpace })
    await this.volumes.clone(uuid, 'small-1', boughtBytes)
    return uuid
  }

  record = (uuid: string): GuestRecord => this.#store.get(uuid)
  sync = (): void => void sh('btrfs', 'filesystem', 'sync', this.pool.path)
  limitMib = (uuid: string): number => volumeLimitOf(this.#context.machines, this.record(uuid)) / mib
  allowanceMib = (uuid: string): number => Math.ceil(this.limitMib(uuid) - boughtMib)

  /** Creates a snapshot as the agent's operation does, and adds it to the record of the guest. */
  async take(uuid: string, id: string): Promise<void> {
    const { sizeBytes = 0 } = await takeCounted(this.#context, uuid, id)
    this.note(uuid, id, sizeBytes)
  }

  note(uuid: string, id: string, sizeBytes: number): void {
    const shown = { createdAtMs: 1, createdBy: 'test', scheduled: false, description: '' }
    const { snapshots } = this.record(uuid)
    this.#store.update(uuid, {
      snapshots: [...snapshots, { id, sizeBytes, state: 'ready', ...shown }],
      snapshotSchedule: noSchedule,
    })
  }

  async takeSeveral(uuid: string, count: number, change: (i: number) => void = () => undefined): Promise<string[]> {
    const ids = Array.from({ length: count }, (_, i) => `s${i}`)
    for (const [i, id] of ids.entries()) {
      await this.take(uuid, id)
      change(i)
    }
    return ids
  }

  takeOwn = (uuid: string, id: string): Promise<unknown> => takeHidden(this.#context, uuid, id)

  async delete(uuid: string, id: string): Promise<void> {
    await deleteCounted(this.#context, uuid, id)
    forgetSnapshot(this.#store, uuid, id)
    await this.settled(uuid)
  }

  async settled(uuid: string): Promise<void> {
    await this.#trash.settled()
    await waitFor(() => awaitSettled(this.#context, uuid, new AbortController().signal), {
      what: 'the space of deleted snapshots',
    })
  }

  /** Restores a snapshot as the agent's operation does: the old disk is kept until the new one works. */
  async restore(uuid: string, id: string): Promise<void> {
    await this.volumes.prepare(uuid, { snapshot: id }, volumeLimitOf(this.#context.machines, this.record(uuid)))
    await this.takeOwn(uuid, 'before-restore')
    await this.volumes.exchange(uuid)
    await this.volumes.deleteSnapshot(uuid, 'before-restore')
    await this.settled(uuid)
  }

  async clear(): Promise<void> {
    for (const guest of await this.volumes.list()) {
      await this.volumes.remove(guest)
      this.#store.remove(guest)
    }
    await this.#trash.settled()
  }
}
