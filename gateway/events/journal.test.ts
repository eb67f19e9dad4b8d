import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import type { EventContent } from './event.js'
import { EventJournal } from './journal.js'
import { parseJournal } from './parse-journal.js'
import { EventRing } from './ring.js'

const log = pino({ level: 'silent' })
const event = (text: string): EventContent => ({
  type: 'guest.updated',
  hostId: 'a',
  guestUuid: 'u',
  data: JSON.stringify({ text }),
  customerData: '{}',
})
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
    const ring = new EventRing('epoch', { count: 3, bytes: 1e6 }, first)
    const journal = new EventJournal({ path, log, ...(maxBytes && { maxBytes }) })
    journal.begin(ring, [])
    const add = (content: EventContent) => {
      ring.add(content)
      journal.add(content)
    }
    return { ring, journal, add }
  }
  const former = () => new EventJournal({ path, log }).former

  it('returns the events, and the last revision of each host, that a gateway process wrote before it was killed', () => {
    const { ring, journal, add } = begin(7)
    add(event('one'))
    journal.update(ring, [host(4)])
    add(event('two'))
    journal.update(ring, [host(5)])
    const hosts = new Map([['a', host(5)]])
    expect(former()).to.deep.equal({ epoch: 'epoch', first: 7, events: [event('one'), event('two')], hosts })
    expect(statSync(path).mode & 0o777).to.equal(0o600)
  })

  it('forgets removed hosts, and writes an unchanged host only once', () => {
    const { ring, journal } = begin()
    journal.update(ring, [host(4), { ...host(1), id: 'b' }])
    const { size } = statSync(path)
    journal.update(ring, [host(4), { ...host(1), id: 'b' }])
    expect(statSync(path).size).to.equal(size)
    journal.update(ring, [host(4)])
    expect([...former()!.hosts.keys()]).to.deep.equal(['a'])
  })

  it('is rewritten with only the newest events when it is too large', () => {
    const { ring, journal, add } = begin(1, 500)
    for (let n = 1; n <= 10; n++) add(event(String(n)))
    journal.update(ring, [host(4)])
    expect(former()).to.deep.include({ first: 8, events: ['8', '9', '10'].map(event) })
    expect(former()!.hosts.size).to.equal(1)
    add(event('11'))
    expect(former()!.events).to.have.length(4)
  })

  it('is ignored if its last line is incomplete or if the machine was rebooted since it was written', () => {
    begin().add(event('one'))
    const text = readFileSync(path, 'utf8')
    expect(parseJournal(text, 'another boot')).to.equal(undefined)
    appendFileSync(path, '{"event":{"type"')
    expect(former()).to.equal(undefined)
    appendFileSync(path, '\n')
    expect(former()).to.equal(undefined)
  })

  it('is no longer written, without an error, if a write to it fails', () => {
    writeFileSync(join(directory, 'file'), '')
    const journal = new EventJournal({ path: join(directory, 'file/events'), log })
    journal.begin(new EventRing('epoch', { count: 3, bytes: 1e6 }), [])
    journal.add(event('one'))
    expect(journal.former).to.equal(undefined)
  })
})
