import { expect } from 'chai'
import { DisksFirst } from '../../agent/guests/operations/disks-first.js'
import type { OperationDefinition, Step } from '../../agent/operations/types.js'
import { define, fail, Gate, order, step, useEngines } from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

/** Simulates creations with the steps of agent/guests/operations/create.ts. Each step only writes a line to a log. */
class Creations {
  readonly log: string[] = []
  readonly #disksFirst = new DisksFirst()

  constructor(
    private readonly parts: Partial<Record<'disk' | 'configure' | 'boot', (guest: string) => Promise<void>>> = {},
  ) {}

  get definition(): OperationDefinition<unknown, string> {
    return define('create', [
      this.#made('disk', (guest) => this.parts.disk?.(guest)),
      this.#made('configure', (guest) => this.parts.configure?.(guest)),
      {
        name: 'start',
        run: (context) =>
          this.#disksFirst.start(context, async () => {
            this.log.push(`boot ${context.subject.id}`)
            await this.parts.boot?.(context.subject.id)
          }),
      },
    ])
  }

  /** Number of guests whose disk was created before the first boot of any guest. */
  get disksFirst(): number {
    return this.log.slice(0, this.#firstBoot()).filter((line) => line.startsWith('configure')).length
  }

  count(what: string): number {
    return this.log.filter((line) => line.startsWith(what)).length
  }

  #firstBoot(): number {
    return this.log.findIndex((line) => line.startsWith('boot'))
  }

  #made(name: string, run: (guest: string) => Promise<void> | undefined): Step<unknown, string> {
    return {
      name,
      run: ({ subject }) =>
        this.#disksFirst.prepare(async () => {
          await run(subject.id)
          this.log.push(`${name} ${subject.id}`)
        }),
    }
  }
}

const named = (count: number): string[] => Array.from({ length: count }, (_, n) => `g${n}`)

describe('the creation of guests', () => {
  const lab = useEngines()

  it('creates the disks of all guests that are requested together before the first of these guests boots', async () => {
    const creations = new Creations()
    const engine = lab.start([creations.definition], { parallel: 3 })
    const guests = named(30)
    for (const guest of guests) engine.submit(order(guest, 'create', guest))
    await Promise.all(guests.map((guest) => engine.wait(guest)))
    expect(creations.disksFirst).to.equal(30)
    expect(creations.count('boot')).to.equal(30)
  })

  it('creates the disk of a later guest before it boots guests whose disks are complete', async () => {
    const gates = new Map(['g0', 'g1', 'g2'].map((guest) => [guest, new Gate()]))
    const creations = new Creations({ disk: (guest) => gates.get(guest)!.pass() })
    const engine = lab.start([creations.definition], { parallel: 2 })
    for (const guest of ['g0', 'g1']) engine.submit(order(guest, 'create', guest))
    gates.get('g0')!.open()
    await waitFor(() => engine.get('g0').stage === 'start', { intervalMs: 2 })
    engine.submit(order('g2', 'create', 'g2'))
    await gates.get('g2')!.entered(1)
    gates.get('g1')!.open()
    await waitFor(() => engine.get('g1').stage === 'start', { intervalMs: 2 })
    gates.get('g2')!.open()
    await Promise.all([...gates.keys()].map((guest) => engine.wait(guest)))
    expect(creations.disksFirst).to.equal(3)
  })

  it('creates the disk of a new guest first if another guest becomes ready to boot at the same moment', async () => {
    const configure = async (guest: string): Promise<void> => {
      if (guest === 'g0') engine.submit(order('g1', 'create', 'g1'))
    }
    const creations = new Creations({ configure })
    const engine = lab.start([creations.definition], { parallel: 2 })
    engine.submit(order('g0', 'create', 'g0'))
    await engine.wait('g0')
    await engine.wait('g1')
    expect(creations.disksFirst).to.equal(2)
  })

  it('boots a single guest without waiting for other operations', async () => {
    const gate = new Gate()
    const creations = new Creations()
    const engine = lab.start([creations.definition, define('other', [gate.step])], { parallel: 2 })
    engine.submit(order('1', 'other', 'h'))
    await gate.entered(1)
    engine.submit(order('2', 'create', 'g'))
    expect((await engine.wait('2')).status).to.equal('done')
    gate.open()
  })

  it('lets other operations run while guests boot or wait to boot', async () => {
    const [disk, boot] = [new Gate(), new Gate()]
    const slow = (gate: Gate) => async (guest: string) => (guest === 'slow' ? gate.pass() : undefined)
    const creations = new Creations({ disk: slow(disk), boot: slow(boot) })
    const other = define('other', [step('one', () => undefined)])
    const engine = lab.start([creations.definition, other], { parallel: 2 })
    engine.submit(order('slow', 'create', 'slow'))
    for (const guest of named(4)) engine.submit(order(guest, 'create', guest))
    await waitFor(() => named(4).every((guest) => engine.get(guest).stage === 'start'), { intervalMs: 2 })
    engine.submit(order('1', 'other', 'h'))
    expect((await engine.wait('1')).status).to.equal('done')
    expect(creations.count('boot')).to.equal(0)
    disk.open()
    await boot.entered(1)
    for (const id of ['2', '3', '4']) engine.submit(order(id, 'other', 'h'))
    for (const id of ['2', '3', '4', ...named(4)]) expect((await engine.wait(id)).status).to.equal('done')
    boot.open()
    expect((await engine.wait('slow')).status).to.equal('done')
  })

  it('boots the first guest even if more guests are requested all the time', async () => {
    const begun: string[] = []
    let going = true
    const disk = async (guest: string): Promise<void> => {
      const count = begun.push(guest)
      if (!going) return
      engine.submit(order(`g${count}`, 'create', `g${count}`))
      await waitFor(() => begun.length > count, { intervalMs: 1 }) // no creation ends before the next one has begun
    }
    const creations = new Creations({ disk })
    const engine = lab.start([creations.definition], { parallel: 4 })
    engine.submit(order('g0', 'create', 'g0'))
    const first = await engine.wait('g0').finally(() => (going = false))
    expect(first.status).to.equal('done')
    await waitFor(() => engine.stats().running === 0 && engine.stats().pending === 0)
    expect(creations.count('boot')).to.equal(begun.length)
  })

  it('boots at most 16 guests at the same time', async () => {
    let [now, most] = [0, 0]
    const all = new Gate()
    const boot = async (): Promise<void> => {
      most = Math.max(most, ++now)
      await all.pass()
      now -= 1
    }
    const creations = new Creations({ boot })
    const engine = lab.start([creations.definition], { parallel: 4 })
    const guests = named(22)
    for (const guest of guests) engine.submit(order(guest, 'create', guest))
    await all.entered(16)
    all.open()
    await Promise.all(guests.map((guest) => engine.wait(guest)))
    expect([most, creations.count('boot')]).to.deep.equal([16, 22])
  })

  it('does not wait for guests whose creation failed or was canceled', async () => {
    const gate = new Gate()
    const disk = async (guest: string): Promise<void> => {
      if (guest === 'g1') await gate.pass().then(() => fail())
    }
    const creations = new Creations({ disk })
    const engine = lab.start([creations.definition], { parallel: 1 })
    for (const guest of ['g0', 'g1', 'g2', 'g3']) engine.submit(order(guest, 'create', guest))
    await gate.entered(1)
    expect(engine.cancel('g2')).to.include({ status: 'canceled' })
    gate.open()
    expect((await engine.wait('g0')).status).to.equal('done')
    expect((await engine.wait('g1')).status).to.equal('failed')
    expect((await engine.wait('g3')).status).to.equal('done')
    expect(creations.log.filter((line) => line.startsWith('boot')).sort()).to.deep.equal(['boot g0', 'boot g3'])
    expect(creations.disksFirst).to.equal(2)
  })

  it('can be canceled before the boot if the start step allows it', async () => {
    const gate = new Gate()
    const undone: string[] = []
    const creations = new Creations({ disk: async (guest) => (guest === 'slow' ? gate.pass() : undefined) })
    const [disk, configure, start] = creations.definition.steps
    const undo = async (): Promise<void> => void undone.push('start')
    const definition = define('create', [disk!, configure!, { ...start!, cancelable: () => true, undo }])
    const engine = lab.start([definition])
    for (const guest of ['slow', 'g']) engine.submit(order(guest, 'create', guest))
    await waitFor(() => engine.get('g').stage === 'start', { intervalMs: 2 })
    engine.cancel('g')
    gate.open()
    expect((await engine.wait('g')).status).to.equal('canceled')
    expect((await engine.wait('slow')).status).to.equal('done')
    expect([undone, creations.count('boot g')]).to.deep.equal([['start'], 0])
  })

  it('creates the missing disks before any boot after a restart of the agent', async () => {
    const gate = new Gate()
    const before = new Creations({ disk: async (guest) => (guest === 'g2' ? gate.pass() : undefined) })
    const engine = lab.start([before.definition], { parallel: 2 })
    for (const guest of named(4)) engine.submit(order(guest, 'create', guest))
    await waitFor(() => named(4).filter((guest) => engine.get(guest).stage === 'start').length === 3, {
      intervalMs: 2,
    })
    const ended = engine.close()
    gate.open()
    expect(await ended).to.equal(true)
    expect(before.count('boot')).to.equal(0)
    const creations = new Creations()
    const next = lab.start([creations.definition], { parallel: 2 })
    for (const guest of named(4)) expect((await next.wait(guest)).status).to.equal('done')
    expect(creations.log[0]).to.match(/ g2$/)
    expect(creations.count('boot')).to.equal(4)
    expect(creations.log.slice(-4).every((line) => line.startsWith('boot'))).to.equal(true)
  })
})
