import { expect } from 'chai'
import { foldAudit, foldConsoles } from './fold-consoles.ts'

const entry = (action: string, user = 'ada', status = 'success') =>
  ({ kind: 'change', action, status, user, address: '192.0.2.1', time: '2026-01-02 10:00:00', detail: '' }) as const

/** A successful entry at a second of one minute. `lasted` is the duration of an ended session. */
const step = (action: string, second: number, lasted?: number) => ({
  ...entry(action),
  time: `2026-01-02 10:00:${second}`,
  detail: lasted === undefined ? 'shell' : `shell, ${lasted} s, 5 bytes in, 7 out, ended`,
})

/** An entry of the audit log. */
const audit = (action: string, { by = 'admin:1', target = 'web1', success = true } = {}) => ({
  ...{ action, by, target, success, address: '192.0.2.1', time: '2026-01-02 10:00:00', detail: '' },
})

describe('the timeline of a guest', () => {
  for (const [name, entries, kept] of [
    ['shows one entry for a console session', [entry('console.close'), entry('console.open')], [0]],
    ['shows the beginning of a session that is still open', [entry('console.open')], [0]],
    [
      'shows two overlapping sessions of one user as two entries',
      [entry('console.close'), entry('console.close'), entry('console.open'), entry('console.open')],
      [0, 1],
    ],
    [
      'does not mix the sessions of two users',
      [entry('console.close', 'bob'), entry('console.open', 'ada'), entry('console.open', 'bob')],
      [0, 1],
    ],
    [
      'shows a session that is still open although an earlier one has ended',
      [step('console.close', 50, 40), step('console.open', 30), step('console.open', 10)],
      [0, 1],
    ],
    [
      'shows an open session if the beginning of the ended one is missing',
      [step('console.close', 50, 3000), step('console.open', 30)],
      [0, 1],
    ],
    [
      'finds the beginning of a session although the times are rounded',
      [step('console.close', 50, 20), step('console.open', 29)],
      [0],
    ],
    ['shows rejected requests for consoles', [entry('console.close'), entry('console.open', 'ada', 'failure')], [0, 1]],
    ['shows all other entries', [entry('container.start'), entry('container.stop')], [0, 1]],
  ] as const)
    it(name, () => expect(foldConsoles(entries)).to.deep.equal(kept.map((at) => entries[at])))
})

describe('the audit log', () => {
  const [close, open, ticket] = [audit('console.close'), audit('console.open'), audit('console.ticket')]
  for (const [name, entries, kept] of [
    ['shows one entry for a console session with its ticket', [close, open, ticket], [0]],
    ['shows the beginning of an open session without its ticket', [open, ticket], [0]],
    ['shows a ticket that nobody used', [ticket], [0]],
    ['shows a ticket that nobody used before another one', [open, ticket, ticket], [0, 2]],
    ['shows a ticket that was created after the session', [ticket, close, open], [0, 1]],
    ['shows the ticket of another guest', [open, audit('console.ticket', { target: 'web2' })], [0, 1]],
    ['shows the ticket of another caller', [open, audit('console.ticket', { by: 'key:3' })], [0, 1]],
    ['shows a rejected ticket', [open, audit('console.ticket', { success: false })], [0, 1]],
  ] as const)
    it(name, () => expect(foldAudit(entries)).to.deep.equal(kept.map((at) => entries[at])))
})
