import { expect } from 'chai'
import type { Severity } from '../../shared/abuse.js'
import type { Finding } from './contract.js'
import { isOpen, planAlert, planAlertPlace, planSamples, quietMs, type AlertState } from './plan-merge.js'

const guest = { guestUuid: 'uuid', guestId: 1, guestName: 'web1', sourceIp: '10.0.0.2' }
const finding = (severity: Severity, target = '198.18.0.1'): Finding => ({
  type: 'port_scan',
  severity,
  target,
  port: 0,
  detail: '',
})

/**
 * Evaluates findings of these severities, `seconds` apart.
 * @param burstSeconds seconds after which the guest sends no further packets
 */
function looks(severities: readonly Severity[], seconds = 10, burstSeconds = Infinity): AlertState[] {
  let alert: AlertState | undefined
  return severities.map((severity, index) => {
    const nowMs = 1000 + index * seconds * 1000
    const seenAtMs = Math.min(nowMs, 1000 + burstSeconds * 1000)
    return (alert = planAlert(alert, finding(severity), { guest, place: ['198.18.0.1', 0], nowMs, seenAtMs }))
  })
}

const severitiesOf = (alerts: readonly AlertState[]): Severity[] => alerts.map(({ severity }) => severity)

const c = 'critical'
type Looks = readonly [
  name: string,
  given: readonly Severity[],
  shown: readonly Severity[],
  seconds: number,
  burst?: number,
]

describe('alerts', () => {
  for (const [name, given, shown, seconds, burst] of [
    ['rise to the severity of a more severe finding', ['medium', 'high'], ['medium', 'high'], 10],
    ['do not fall to the severity of a less severe finding', ['high', 'medium'], ['high', 'high'], 10],
    ['become critical if critical findings continue', [c, c, c], ['high', 'high', 'critical'], 10],
    [
      'become critical at the second evaluation if the time between evaluations is a minute',
      [c, c],
      ['high', 'critical'],
      60,
    ],
    [
      'do not become critical because several evaluations find the same short burst',
      [c, c, c, c, c],
      Array(5).fill('high'),
      10,
      2,
    ],
    [
      'do not become critical because of a burst that ends between two evaluations',
      [c, c, c, c, c],
      Array(5).fill('high'),
      10,
      12,
    ],
    ['do not become critical because of a single critical finding', [c, 'high', 'high'], ['high', 'high', 'high'], 10],
    [
      'become critical despite a less severe finding between two critical findings',
      [c, 'high', c],
      ['high', 'high', 'critical'],
      10,
    ],
    ['do not become critical because of a second burst much later', [c, c], ['high', 'high'], 300],
    [
      'stay critical if later findings are less severe',
      [c, c, c, 'medium'],
      ['high', 'high', 'critical', 'critical'],
      10,
    ],
  ] as readonly Looks[])
    it(name, () => expect(severitiesOf(looks(given, seconds, burst))).to.deep.equal(shown))

  it('contain the number of their findings, and the times of the first and the last finding', () => {
    expect(looks(['medium', 'medium', 'medium']).at(-1)).to.include({
      count: 3,
      firstAtMs: 1000,
      lastAtMs: 21_000,
    })
  })

  it('whose automatic stop was canceled get a new time of critical behaviour only if critical findings continue', () => {
    const [, , before] = looks([c, c, c])
    const place = ['198.18.0.1', 0] as const
    let alert = { ...before!, action: 'canceled', stopAtMs: 22_000 } as AlertState
    for (const [nowMs, criticalAtMs] of [
      [31_000, 21_000],
      [41_000, 21_000],
      [51_000, 51_000],
    ] as const) {
      alert = planAlert(alert, finding(c), { guest, place, nowMs, seenAtMs: nowMs })
      expect(alert.criticalAtMs, String(nowMs)).to.equal(criticalAtMs)
    }
  })

  it('close after a quarter of an hour without a finding', () => {
    const [alert] = looks(['medium'])
    expect([isOpen(alert!, 1000 + quietMs - 1), isOpen(alert!, 1000 + quietMs)]).to.deep.equal([true, false])
  })

  it('are separate for the first five targets, and one common alert covers all further targets', () => {
    const open = Array.from({ length: 5 }, (_, index) => ({
      ...looks(['medium'])[0]!,
      targetIp: `198.18.0.${index}`,
    }))
    expect(planAlertPlace(open.slice(1), finding('medium', '198.18.1.1'))).to.deep.equal(['198.18.1.1', 0])
    expect(planAlertPlace(open, finding('medium', '198.18.1.1'))).to.deep.equal(['*', 0])
    expect(planAlertPlace(open, finding('medium', '198.18.0.4'))).to.deep.equal(['198.18.0.4', 0])
  })

  it('contain at most fifty sample connections', () => {
    const row = { outcome: 'refused', protocol: 'tcp', count: 1 } as const
    const rows = Array.from({ length: 120 }, (_, port) => ({
      ...row,
      atMs: port,
      port,
      target: port % 2 ? '198.18.0.1' : 'x',
    }))
    const kept = planSamples(rows, finding('medium'))
    expect([kept.length, kept[0]?.port, kept.at(-1)?.port]).to.deep.equal([50, 21, 119])
  })
})
