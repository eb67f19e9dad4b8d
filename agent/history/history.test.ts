import { expect } from 'chai'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { GuestRecord } from '../guests/record/record.js'
import { UsageHistory, type HistoryParts } from './history.js'
import type { Reading } from './plan-figures.js'
import { seriesBytes, type Range } from './plan-series.js'
import { SeriesFiles } from './series-files.js'

const minuteMs = 60_000
const begin = Date.UTC(2026, 10, 23, 10)

type Listener = (change: { kind: string; key: string; removed: boolean }) => void

/** Runs a history with real files, but with fake guests, a fake clock and fake counters. */
class Lab {
  readonly directory = mkdtempSync(join(tmpdir(), 'btest-history-'))
  readonly guests = new Set(['a', 'b'])
  /** Uuids of the guests that run. */
  readonly running = new Set(['a'])
  nowMs = begin
  full = false
  #listener: Listener = () => undefined
  history = this.open()

  open(writeEveryMs = 5 * minuteMs): UsageHistory {
    const records = () =>
      [...this.guests].map(
        (uuid) => ({ uuid, spec: { limits: { vcpuMilli: 1000 } }, ownership: { role: 'owner' } }) as GuestRecord,
      )
    const changes = { onChange: (listener: Listener) => ((this.#listener = listener), () => undefined) }
    const store = {
      changes,
      list: records,
      find: (uuid: string) => records().find((record) => record.uuid === uuid),
    } as unknown as HistoryParts['store']
    const files = new SeriesFiles(this.directory)
    const write = files.write.bind(files)
    files.write = (...given) => {
      if (this.full) throw new Error('ENOSPC')
      write(...given)
    }
    return new UsageHistory({
      files,
      store,
      writeEveryMs,
      hostProcessors: 2,
      sampleGuest: (uuid) => ({
        reading: this.running.has(uuid) ? this.#reading() : undefined,
        diskBytes: 5,
      }),
      sampleHost: () => ({ reading: this.#reading(), diskBytes: 50 }),
      log: pino({ level: 'silent' }),
      now: () => this.nowMs,
    })
  }

  /** Returns counters of a guest that uses a tenth of a processor, in steps of 10 ms like the kernel's. */
  #reading(): Reading {
    const cpuUsec = Math.floor((this.nowMs - begin) / 100) * 10_000
    const io = { rxBytes: 0, txBytes: 0, readBytes: 0, writeBytes: 0 }
    return { atMs: this.nowMs, life: '1', memoryBytes: 64, cpuUsec, ...io }
  }

  async minutes(count: number): Promise<void> {
    for (let minute = 0; minute < count; minute++) {
      this.nowMs += minuteMs
      await this.history.tick()
    }
  }

  delete(uuid: string): void {
    this.guests.delete(uuid)
    this.#listener({ kind: 'guest', key: uuid, removed: true })
  }

  cpu(uuid: string, range: Range = 'day'): number[] {
    return this.history.readGuest(uuid, range).steps.map(({ cpuPercent }) => Math.round(cpuPercent * 100) / 100)
  }

  files(): string[] {
    return readdirSync(this.directory).sort()
  }
}

describe('the usage history', () => {
  let lab: Lab
  beforeEach(() => {
    lab = new Lab()
    lab.history.look()
  })
  afterEach(() => rmSync(lab.directory, { recursive: true }))

  it('shows each minute immediately, and writes the values of five minutes to the disk together', async () => {
    await lab.minutes(4)
    expect(lab.cpu('a')).to.deep.equal([10, 10, 10, 10])
    expect(lab.files()).to.deep.equal([])
    await lab.minutes(1)
    expect(lab.files()).to.deep.equal(['a', 'b', 'host'])
    expect(lab.cpu('a')).to.have.length(5)
    expect(lab.history.readHost('day').steps.at(-1)).to.include({
      cpuPercent: 5,
      memoryBytes: 64,
      diskBytes: 50,
    })
  })

  it('contains only the disk usage for a stopped guest', async () => {
    await lab.minutes(2)
    expect(lab.history.readGuest('b', 'day').steps.at(-1)).to.include({ diskBytes: 5 })
    expect(lab.cpu('b').every(Number.isNaN)).to.equal(true)
  })

  it('continues when the agent has restarted, with a gap for the time without an agent', async () => {
    await lab.minutes(3)
    await lab.history.close()
    lab.nowMs += 4 * minuteMs
    lab.history = lab.open()
    lab.history.look()
    await lab.minutes(2)
    expect(lab.cpu('a')).to.deep.equal([10, 10, 10, NaN, NaN, NaN, NaN, 10, 10])
  })

  it('has a gap for the minutes that were not written before the agent was killed', async () => {
    await lab.minutes(7)
    lab.history = lab.open()
    expect(lab.cpu('a')).to.deep.equal([10, 10, 10, 10, 10, NaN, NaN])
  })

  it('contains the averages of hours and days, in files of a fixed size', async () => {
    await lab.minutes(60 * 50)
    expect(lab.cpu('a', 'month')).to.deep.equal([...Array<number>(50).fill(10), NaN])
    expect(lab.cpu('a', 'year')).to.deep.equal([10, 10, 10])
    expect(lab.cpu('a')).to.have.length(1440)
    expect(statSync(join(lab.directory, 'a')).size).to.be.at.most(seriesBytes)
  })

  it('contains the averages of hours that ended while no agent was running', async () => {
    await lab.minutes(58)
    await lab.history.close()
    lab.nowMs += 180 * minuteMs
    lab.history = lab.open()
    lab.history.look()
    await lab.minutes(5)
    expect(lab.cpu('a', 'month')).to.deep.equal([10, NaN, NaN, 10, 10])
  })

  it('keeps the values of up to 120 minutes in memory while the disk is full, and writes them afterwards', async () => {
    lab.full = true
    await lab.minutes(130)
    expect(lab.files()).to.deep.equal([])
    lab.full = false
    await lab.minutes(5)
    expect(lab.cpu('a')).to.deep.equal(Array<number>(120).fill(10))
    lab.history = lab.open()
    expect(lab.cpu('a')).to.have.length(120)
  })

  it('is deleted with its guest, and is not written after the deletion', async () => {
    await lab.minutes(5)
    lab.delete('a')
    expect(lab.files()).to.deep.equal(['b', 'host'])
    await lab.minutes(5)
    expect(lab.files()).to.deep.equal(['b', 'host'])
    lab.guests.delete('b') // deleted while no agent was running
    lab.history = lab.open()
    lab.history.start()
    expect(existsSync(join(lab.directory, 'b'))).to.equal(false)
    await lab.history.close()
  })

  it('records whole minutes even if the timer fires shortly before a minute ends', async () => {
    await lab.minutes(2)
    for (let minute = 0; minute < 3; minute++) {
      lab.nowMs += minuteMs - 1
      await lab.history.tick()
      lab.nowMs += 1
      await lab.history.tick()
    }
    expect(lab.cpu('a')).to.deep.equal([10, 10, 10, 10, 10])
    expect(lab.history.readHost('day').steps.map(({ cpuPercent }) => Math.round(cpuPercent))).to.deep.equal([
      5, 5, 5, 5, 5,
    ])
  })

  it('has a gap instead of zeros if two readings follow each other too quickly', async () => {
    await lab.minutes(2)
    lab.nowMs += minuteMs - 2
    lab.history.look()
    lab.nowMs += 2
    await lab.history.tick()
    await lab.minutes(1)
    expect(lab.cpu('a')).to.deep.equal([10, 10, NaN, 10])
  })

  it('writes no minute twice after the clock was set back', async () => {
    await lab.minutes(2)
    lab.nowMs -= 5 * minuteMs
    await lab.minutes(6)
    expect(lab.cpu('a').length).to.be.at.most(4)
  })
})
