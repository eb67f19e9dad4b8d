import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { figure, type Figure } from './figures.js'

const settleMs = 30_000
const measureMs = 60_000
const ticksPerSecond = 100

/**
 * Measures the resident memory and CPU time of the daemons without any requests, including the long-lived tools that
 * they run. Memory that several processes share is divided among them (PSS).
 */
export async function benchIdle(pidFiles: { agent: string; gateway: string }, guests: number): Promise<Figure[]> {
  await delay(settleMs)
  const figures: Figure[] = []
  const pids = Object.entries(pidFiles).map(
    ([name, file]) => [name, Number(readFileSync(file, 'utf8').split(' ')[0])] as const,
  )
  const before = pids.map(([, pid]) => familyTicks(pid))
  await delay(measureMs)
  for (const [i, [name, pid]] of pids.entries()) {
    const percent = ((familyTicks(pid) - (before[i] ?? 0)) / ticksPerSecond / (measureMs / 1000)) * 100
    figures.push(figure(`${name}, ${guests} guests: resident memory`, 'MB', { Berth: rssMb(pid) }))
    figures.push(figure('the same with its tools', 'MB', { Berth: rssMb(pid) + toolsMb(pid) }))
    figures.push(figure(`${name}, ${guests} guests: processor`, '% of one', { Berth: percent }))
  }
  return figures
}

/** Measures a process and its children for `ms`. @returns their CPU time in percent of one CPU */
export async function processorPercent(pid: number, ms: number): Promise<number> {
  const before = familyTicks(pid)
  await delay(ms)
  return ((familyTicks(pid) - before) / ticksPerSecond / (ms / 1000)) * 100
}

/** Returns the CPU ticks of a process and of its running children (such as the launcher), with their ended children. */
function familyTicks(pid: number): number {
  return [pid, ...readChildren(pid)].reduce((sum, each) => sum + ticks(each), 0)
}

/** Returns utime and stime of a process and of its ended children, fields 14 to 17 of /proc/pid/stat (proc(5)). */
function ticks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0)
}

export function rssMb(pid: number): number {
  return readKb(`/proc/${pid}/status`, 'VmRSS') / 1024
}

/** Memory of long-lived children: the agent's launcher and tools that read commands from a pipe, or the gateway's Redis. */
function toolsMb(pid: number): number {
  const tools = readChildren(pid).map((child) => readKb(`/proc/${child}/smaps_rollup`, 'Pss'))
  return tools.reduce((sum, kb) => sum + kb, 0) / 1024
}

function readChildren(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
}

function readKb(file: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(file, 'utf8'))?.[1])
}
