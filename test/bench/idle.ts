import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { figure, type Figure } from './figures.js'

const settleMs = 30_000
const measureMs = 60_000
const ticksPerSecond = 100

/**
 * Resident memory and processor time of the daemons while nobody asks for anything: their own processes and,
 * for the agent, the tools it keeps on pipes.
 */
export async function benchIdle(
  pidFiles: { agent: string; gateway: string },
  guests: number,
): Promise<Figure[]> {
  await delay(settleMs)
  const figures: Figure[] = []
  const pids = Object.entries(pidFiles).map(
    ([name, file]) => [name, Number(readFileSync(file, 'utf8').split(' ')[0])] as const,
  )
  const before = pids.map(([, pid]) => ticks(pid))
  await delay(measureMs)
  for (const [i, [name, pid]] of pids.entries()) {
    const percent = ((ticks(pid) - (before[i] ?? 0)) / ticksPerSecond / (measureMs / 1000)) * 100
    figures.push(figure(`${name}, ${guests} guests: resident memory`, 'MB', { Berth: familyRssMb(pid) }))
    figures.push(figure(`${name}, ${guests} guests: processor`, '% of one', { Berth: percent }))
  }
  return figures
}

/** utime and stime, fields 14 and 15 of /proc/pid/stat (proc(5)). */
function ticks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** With what it started and keeps: the agent's launcher and tools on pipes, the gateway's Redis is its own master. */
function familyRssMb(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
  return [pid, ...children.map(Number)].reduce((sum, each) => sum + rssMb(each), 0)
}

function rssMb(pid: number): number {
  const [, kb = 'NaN'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kb) / 1024
}
