import { expect } from 'chai'
import { isSilent, reportedUpgrade, upgradeStateOf, type HostUpgrade, type UpgradeStep } from './host-upgrade.js'

const minuteMs = 60_000
const upgrade = (fields: Partial<HostUpgrade> = {}): HostUpgrade => ({
  id: 'u1',
  from: '1',
  to: '2',
  rollback: false,
  step: 'installing',
  message: '',
  startedAtMs: 0,
  atMs: 0,
  ...fields,
})
const report = (step: UpgradeStep, message = '', id = 'u1') => ({ id, step, message, atMs: 5 })

describe('the upgrade of a host', () => {
  for (const [step, state] of [
    ['starting', 'running'],
    ['rolling_back', 'running'],
    ['done', 'done'],
    ['failed', 'failed'],
  ] as const)
    it(`has the state "${state}" in the step "${step}"`, () => {
      expect(upgradeStateOf(upgrade({ step }))).to.equal(state)
    })

  for (const [name, known, given, step, message] of [
    ['moves to the step that the host reports', upgrade(), report('waiting'), 'waiting', ''],
    ['ignores a report of another upgrade', upgrade(), report('failed', 'why', 'u2'), 'installing', ''],
    ['ignores a report after the upgrade has ended', upgrade({ step: 'done' }), report('failed', 'late'), 'done', ''],
    [
      'shows the reason for the failure during the return to the earlier version',
      upgrade({ step: 'rolling_back', message: 'why' }),
      report('installing'),
      'rolling_back',
      'why',
    ],
    [
      'has failed after the return to the earlier version',
      upgrade({ step: 'rolling_back', message: 'why' }),
      report('failed', 'why; version 1 is installed again'),
      'failed',
      'why; version 1 is installed again',
    ],
  ] as const)
    it(name, () => {
      expect(reportedUpgrade(known, given)).to.include({ step, message })
    })

  it('does not start if a host reports an upgrade that was not requested', () => {
    expect(reportedUpgrade(undefined, report('checking'))).to.equal(undefined)
  })

  for (const [step, afterMinutes, silent] of [
    ['starting', 2, false],
    ['starting', 4, true],
    ['installing', 29, false],
    ['installing', 31, true],
    ['done', 1000, false],
    ['failed', 1000, false],
  ] as const)
    it(`${silent ? 'counts' : 'does not count'} as silent ${afterMinutes} minutes after the host reported the step "${step}"`, () => {
      expect(isSilent(upgrade({ step }), afterMinutes * minuteMs)).to.equal(silent)
    })
})
