import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import type { EventContent } from './event.js'
import { EventJournal } from './journal.js'
import { parseJournal } from './parse-journal.js'
import { markAfter, type EntryMark } from './positions.js'
import { EventRing } from './ring.js'

const log = pino({ level: 'silent' })
const event = (text: string): EventContent => ({
  type: 'guest.updated',
  hostId: 'a',
  guestUuid: 'u',
  data: JSON.stringify({ text }),
  customer: { type: 'guest.created', data: '{}' },
})
const start = { epoch: 'epoch', first: 1, base: new Map<string, number>() }
const mark = (revision: number): EntryMark => markAfter({ lane: 'a/journal/e', revision })
const host = (revision: number) => ({ id: 'a', name: 'a', online: true, epoch: 'e', revision })

describe('the journal of events', () => {
  let directory: string
  let path: string
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-journal-'))
    path = join(directory, 'run/events')
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  const begin = (first?: number, maxBytes?: number) => {
    const ring = new EventRing({ ...start, first: first ?? 1 }, { count: 3, bytes: 1e6 })
    const journal = new EventJournal({ path, log, ...(maxBytes && { maxBytes }) })
    journal.begin(ring, [])
    const add = (content: EventContent | undefined, at?: EntryMark) => journal.add(ring.add(content, at))
    return { ring, journal, add }
  }
  const former = () => new EventJournal({ path, log }).former

  it('still contains the events and the last revisions of each host after the gateway process was killed', () => {
    const { ring, journal, add } = begin(7)
    add(event('one'))
    journal.update(ring, [host(4)])
    add(event('two'))
    journal.update(ring, [host(5)])
    const hosts = new Map([['a', host(5)]])
    const entries = [{ event: event('one') }, { event: event('two') }]
    expect(former()).to.deep.equal({ ...start, first: 7, entries, hosts })
    expect(statSync(path).mode & 0o777).to.equal(0o600)
  })

  it('can be read from the position of each event, and from the position before the first event', () => {
    const { ring, journal, add } = begin()
    for (let n = 1; n <= 4; n++) add(event(String(n)), mark(n))
    add(undefined, mark(9))
    journal.begin(ring, [])
    const entries = [{ event: event('3'), mark: mark(3) }, { event: event('4'), mark: mark(4) }, { mark: mark(9) }]
    expect(former()).to.deep.include({ first: 3, base: new Map([['a/journal/e', mark(2).at]]), entries })
  })

  it('reports a gap for each host if an earlier version of Berth wrote the journal without positions', () => {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const lines = [{ boot, epoch: 'epoch', first: 1 }, { event: event('one') }, { host: host(4) }]
    const found = parseJournal(lines.map((line) => `${JSON.stringify(line)}\n`).join(''), boot)
    expect(found?.entries).to.deep.equal([{ event: event('one') }, { mark: { ...mark(4), isGap: true } }])
  })

  it('contains the name of the caller of a task, also if an earlier version of Berth wrote the task', () => {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const task = { type: 'task.done', hostId: 'a', guestUuid: 'u', data: '{"id":"t","user":"ada"}' } as const
    const removed = { type: 'task.removed', hostId: 'a', guestUuid: 'u', data: '{"id":"t"}' } as const
    const lines = [{ boot, ...start, base: {} }, { event: task }, { event: removed }]
    const found = parseJournal(lines.map((line) => `${JSON.stringify(line)}\n`).join(''), boot)
    const entries = [{ event: { ...task, actor: 'ada' } }, { event: removed }]
    expect(found?.entries).to.deep.equal(entries)
    const { add } = begin()
    for (const { event: content } of entries) add(content)
    expect(former()!.entries).to.deep.equal(entries)
  })

  it('contains no removed hosts, and contains an unchanged host only once', () => {
    const { ring, journal } = begin()
    journal.update(ring, [host(4), { ...host(1), id: 'b' }])
    const { size } = statSync(path)
    journal.update(ring, [host(4), { ...host(1), id: 'b' }])
    expect(statSync(path).size).to.equal(size)
    journal.update(ring, [host(4)])
    expect([...former()!.hosts.keys()]).to.deep.equal(['a'])
  })

  it('is rewritten with only the newest events if it becomes too large', () => {
    const { ring, journal, add } = begin(1, 500)
    for (let n = 1; n <= 10; n++) add(event(String(n)))
    journal.update(ring, [host(4)])
    expect(former()).to.deep.include({ first: 8, entries: ['8', '9', '10'].map((text) => ({ event: event(text) })) })
    expect(former()!.hosts.size).to.equal(1)
    add(event('11'))
    expect(former()!.entries).to.have.length(4)
  })

  it('is ignored if its last line is incomplete, or if the machine has rebooted', () => {
    begin().add(event('one'))
    const text = readFileSync(path, 'utf8')
    expect(parseJournal(text, 'another boot')).to.equal(undefined)
    appendFileSync(path, '{"event":{"type"')
    expect(former()).to.equal(undefined)
    appendFileSync(path, '\n')
    expect(former()).to.equal(undefined)
  })

  it('is no longer written after a failed write, while the gateway continues to work', () => {
    writeFileSync(join(directory, 'file'), '')
    const journal = new EventJournal({ path: join(directory, 'file/events'), log })
    const ring = new EventRing(start, { count: 3, bytes: 1e6 })
    journal.begin(ring, [])
    journal.add(ring.add(event('one')))
    expect(journal.former).to.equal(undefined)
  })
})
