import { readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { figure, median, printFigures, timed, type Figure } from './figures.js'
import { fioJobs, SerialShell } from './kvm-disk.js'
import { bootMs, disks, KvmLab, ramMb } from './kvm-lab.js'

const many = 20
const big = { diskGb: 10, dataGb: 1 }

/** Title and function of each section, by its name. The function runs at most the requested number of rounds. */
const sections = {
  'kvm-create': ['creation', benchCreate],
  'kvm-snapshot': ['a large disk', benchBigDisk],
  'kvm-memory': ['memory', benchMemory],
  'kvm-fio': ['disks', benchFio],
  'kvm-many': ['many at once', benchMany],
} as const satisfies Record<string, readonly [string, (lab: KvmLab, rounds: number) => Promise<Figure[]>]>

export type KvmSection = keyof typeof sections
export const kvmSections = Object.keys(sections) as KvmSection[]

/** Compares virtual machines that are created through the API of a gateway with QEMU started by hand. */
export async function benchKvm(chosen: readonly KvmSection[], rounds: number): Promise<void> {
  say('making host and gateway')
  const lab = await KvmLab.open()
  try {
    for (const section of chosen) {
      const [title, measure] = sections[section]
      const load = `load ${loadavg()[0]!.toFixed(1)} on ${cpus().length} processors before`
      printFigures(`Virtual machines: ${title}, ${load}`, await measure(lab, rounds))
    }
  } finally {
    await lab.close()
  }
}

function say(what: string): void {
  console.error(`${new Date().toISOString().slice(11, 19)} kvm: ${what}`)
}

async function benchCreate(lab: KvmLab, rounds: number): Promise<Figure[]> {
  const times = { berth: [] as number[], raw: [] as number[] }
  for (let round = -1; round < rounds; round++) {
    say(`create ${round + 1} of ${rounds}`)
    const berth = await timed(() => lab.create('one', disks.idle))
    await lab.remove('one')
    const raw = await timed(() => lab.raw.create('one', disks.idle, 1))
    await lab.raw.remove('one')
    if (round >= 0) (times.berth.push(berth), times.raw.push(raw))
  }
  return [row('create until the process runs', 'ms', median(times.berth), median(times.raw))]
}

/** Measures snapshots of a running machine with fragmented data. Its guest agent freezes the file systems. */
async function benchBigDisk(lab: KvmLab, rounds: number): Promise<Figure[]> {
  const { diskGb, dataGb } = big
  say(`a disk of ${diskGb} GB`)
  await lab.create('big', disks.tiny, diskGb)
  await lab.fill('big', big)
  const times = { snapshot: [] as number[], restore: [] as number[] }
  const path = '/containers/big/snapshots'
  for (let round = 0; round < Math.min(rounds, 7); round++) {
    await booted(lab.serial('big'))
    say(`snapshot ${round + 1}`)
    let id = ''
    times.snapshot.push(await timed(async () => (id = (await lab.ask<{ id: string }>('POST', path)).id)))
    times.restore.push(
      await timed(async () => {
        await lab.ask('POST', `${path}/${id}/restore`)
        await lab.untilRunning('big')
      }),
    )
    await lab.ask('DELETE', `${path}/${id}`)
  }
  await lab.remove('big')
  const what = `a disk of ${diskGb} GB with ${dataGb} GB in pieces of 64 KiB`
  return [
    row(`snapshot of ${what}`, 'ms', median(times.snapshot)),
    row('restore of it until the machine runs', 'ms', median(times.restore)),
  ]
}

async function booted(serial: string): Promise<void> {
  ;(await SerialShell.open(serial, bootMs)).close()
}

async function benchMemory(lab: KvmLab): Promise<Figure[]> {
  say('a machine that boots')
  await lab.create('one', disks.tiny)
  await booted(lab.serial('one'))
  const berth = overheadMb(lab.pid('one'))
  await lab.remove('one')
  await lab.raw.create('one', disks.tiny, 1)
  await booted(lab.raw.serial('one'))
  const raw = overheadMb(lab.raw.pid('one'))
  await lab.raw.remove('one')
  return [row("memory beyond the machine's own, once it has booted", 'MB', berth, raw)]
}

/** Returns the memory of a QEMU process, except the mapping that contains the memory of the guest. */
function overheadMb(pid: number): number {
  const mappings = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  const read = (text: string, key: string): number =>
    Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0)
  const others = mappings.filter((text) => read(text, 'Size') !== ramMb * 1024)
  return others.reduce((sum, text) => sum + read(text, 'Pss'), 0) / 1024
}

/** Measures disk rates. Each machine may use all CPUs of the host, because a CPU limit would also slow down QEMU. */
async function benchFio(lab: KvmLab, rounds: number): Promise<Figure[]> {
  say('two machines that boot')
  const processors = cpus().length
  await lab.create('one', disks.fio, 2, processors)
  await lab.raw.create('one', disks.fio, 2, processors)
  const shells = [
    await SerialShell.open(lab.serial('one'), bootMs),
    await SerialShell.open(lab.raw.serial('one'), bootMs),
  ]
  const figures: Figure[] = []
  for (const [what, of, args] of fioJobs) {
    const seen: number[][] = [[], []]
    say(`fio: ${what}`)
    for (let round = 0; round < Math.min(rounds, 5); round++)
      for (const [at, shell] of shells.entries()) seen[at]!.push(await shell.fio(of, args))
    figures.push(row(`fio in it: ${what}`, 'MB/s', median(seen[0]!), median(seen[1]!)))
  }
  for (const shell of shells) shell.close()
  await lab.remove('one')
  await lab.raw.remove('one')
  return figures
}

async function benchMany(lab: KvmLab): Promise<Figure[]> {
  const names = Array.from({ length: many }, (_, n) => `many-${n + 1}`)
  const agentBefore = lab.agentMb()
  const containers = names.map((name) => lab.body(name, disks.tiny))
  say(`${many} machines`)
  const begun = performance.now()
  await lab.ask('POST', '/batch-create', { containers })
  await lab.untilAllRun(names)
  const runMs = performance.now() - begun
  say('all run')
  for (const name of names) await booted(lab.serial(name))
  const bootedMs = performance.now() - begun
  say('all have booted')
  const agentMb = (lab.agentMb() - agentBefore) / many
  for (const name of names) await lab.remove(name)
  return [
    row(`${many} created at once until all run`, 's', runMs / 1000),
    row(`${many} created at once until all have booted`, 's', bootedMs / 1000),
    row('memory of the agent for each that runs', 'MB', agentMb),
  ]
}

function row(what: string, unit: string, berth: number, raw?: number): Figure {
  return figure(what, unit, { Berth: berth, 'raw QEMU': raw })
}
