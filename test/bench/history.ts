import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseIo } from '../../agent/drivers/common/usage.js'
import type { GuestRecord } from '../../agent/guests/record/record.js'
import { UsageHistory, type HistoryParts } from '../../agent/history/history.js'
import type { Reading } from '../../agent/history/plan-figures.js'
import { seriesBytes } from '../../agent/history/plan-series.js'
import { SeriesFiles } from '../../agent/history/series-files.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { readKernelFile } from '../../agent/host/process/proc.js'
import { silentLog } from '../support/gateway/redis.js'
import { figure, timed, type Figure } from './figures.js'

const minuteMs = 60_000
/** Interval of the agent's guest samples; this is the default. */
const sampleEveryMs = 10_000

/** Records the history of many guests on a simulated clock. Measures the CPU time and the space on the disk. */
export async function benchHistory({ guests, hours }: { guests: number; hours: number }): Promise<Figure[]> {
  const directory = mkdtempSync('/var/tmp/btestbench-history-')
  const clock = { nowMs: Date.UTC(2026, 0, 1) }
  try {
    const history = new UsageHistory({ ...partsOf(guests, clock), files: new SeriesFiles(directory) })
    history.look()
    const before = process.cpuUsage()
    let longestMs = 0
    for (let minute = 0; minute < hours * 60; minute++) {
      clock.nowMs += minuteMs
      longestMs = Math.max(longestMs, await timed(() => history.tick()))
    }
    const { user, system } = process.cpuUsage(before)
    const percent = ((user + system) / 1000 / (hours * 60 * minuteMs)) * 100
    const readMs = await timed(async () => void history.readGuest('guest-1', 'day'))
    await history.close()
    const name = `history, ${guests} guests`
    return [
      figure(`${name}: processor`, '% of one', { Berth: percent }),
      figure(`${name}: counters of their disks, processor`, '% of one', { Berth: ioPercent(guests) }),
      figure(`${name}: longest minute, in turns`, 'ms', { Berth: longestMs }),
      figure('a day of one guest: read', 'ms', { Berth: readMs }),
      figure('one guest on the disk, at most', 'KiB', { Berth: seriesBytes / 1024 }),
    ]
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function partsOf(guests: number, clock: { nowMs: number }): Omit<HistoryParts, 'files'> {
  const records = Array.from(
    { length: guests },
    (_, n) => ({ uuid: `guest-${n}`, spec: { limits: { vcpuMilli: 1000 } } }) as GuestRecord,
  )
  const byUuid = new Map(records.map((record) => [record.uuid, record]))
  const store = {
    list: () => records,
    find: (uuid: string) => byUuid.get(uuid),
    changes: { onChange: () => () => undefined },
  } as unknown as HistoryParts['store']
  const reading = (): Reading => {
    const grown = clock.nowMs / 10
    const bytes = { rxBytes: grown, txBytes: grown, readBytes: grown, writeBytes: grown }
    return { atMs: clock.nowMs, life: '1', memoryBytes: 1e8, cpuUsec: grown, ...bytes }
  }
  return {
    store,
    sampleGuest: () => ({ reading: reading(), diskBytes: 1e9 }),
    sampleHost: () => ({ reading: reading(), diskBytes: 1e9 }),
    hostProcessors: 2,
    writeEveryMs: 5 * minuteMs,
    log: silentLog,
    now: () => clock.nowMs,
  }
}

/** Measures the cost of reading one more kernel file per guest in each sample: CPU time in percent of one CPU. */
function ioPercent(guests: number): number {
  const { version, controllers } = readCgroupLayout()
  const file = version === 1 ? 'blkio.throttle.io_service_bytes_recursive' : 'io.stat'
  const path = join(controllers.get(version === 1 ? 'blkio' : 'io') ?? '', file)
  const before = process.cpuUsage()
  for (let n = 0; n < guests; n++) parseIo(readKernelFile(path) ?? '', '7:0')
  const { user, system } = process.cpuUsage(before)
  return ((user + system) / 1000 / sampleEveryMs) * 100
}
