import { expect } from 'chai'
import { RefusedError, type ClientRequest, type Envelope } from '../../client/index.js'
import { readFacts } from './read-facts.js'

const nowMs = Date.UTC(2026, 10, 27, 5)
const offline = { status: 503, code: 'host_offline' }
const forbidden = { status: 403, code: 'insufficient_scope' }
type Answers = Readonly<Record<string, unknown>>
type Refusal = typeof offline

/** Client of a gateway that knows only these paths. It refuses all others. */
function clientOf(answers: Answers, refusal: Refusal, requests: ClientRequest[] = []) {
  const send = async (request: ClientRequest): Promise<{ status: number; body: Envelope }> => {
    requests.push(request)
    const { path } = request
    if (path in answers) return Promise.resolve({ status: 200, body: { data: answers[path] } })
    throw new RefusedError(refusal.status, { message: 'refused', code: refusal.code })
  }
  return { send }
}

const parts = ['/hosts', '/fleet-usage', '/gateways', '/tasks', '/ssl', '/fleet/ca', '/fleet/upgrade']
const all: Answers = Object.fromEntries(parts.map((path) => [path, []]))

describe('berth doctor', () => {
  for (const [name, answers, refusal, now] of [
    ['the report of a host', { ...all, '/host-report': { generated_at: '2026-11-27 13:00:00' } }, offline, '13:00:00'],
    ['this machine if no host has a report', all, offline, '05:00:00'],
    ['this machine if the API key has no right to read the report', all, forbidden, '05:00:00'],
  ] as const)
    it(`takes the present time from ${name}`, async () => {
      const requests: ClientRequest[] = []
      const { facts, isAllUnchecked } = await readFacts(clientOf(answers, refusal, requests), nowMs)
      expect([facts.now, isAllUnchecked]).to.deep.equal([`2026-11-27 ${now}`, false])
      expect(requests.filter(({ path }) => path === '/host-report')).to.deep.equal([
        { method: 'GET', path: '/host-report' },
      ])
    })

  it('counts the checks that were skipped because the API key lacks a scope', async () => {
    const { unchecked, isAllUnchecked } = await readFacts(clientOf({ '/hosts': [] }, forbidden), nowMs)
    expect([unchecked.length, isAllUnchecked]).to.deep.equal([parts.length - 1, false])
    expect((await readFacts(clientOf({}, forbidden), nowMs)).isAllUnchecked).to.equal(true)
  })
})
