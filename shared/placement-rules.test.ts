import { expect } from 'chai'
import { BerthError } from './errors.js'
import { hasLabel, noPlacement, parseHostLabels, parsePlacement } from './placement-rules.js'

function fieldOf(work: () => unknown): string | undefined {
  try {
    work()
  } catch (error) {
    return (error as BerthError).field
  }
  return undefined
}

describe('the rules for labels of hosts and placement of guests', () => {
  for (const [labels, required, result] of [
    [['ssd'], 'ssd', true],
    [['disk=nvme'], 'disk', true],
    [['disk=nvme'], 'disk=nvme', true],
    [['disk=nvme'], 'disk=hdd', false],
    [['disk'], 'disk=nvme', false],
    [['disks'], 'disk', false],
    [[], 'ssd', false],
  ] as const)
    it(`find that a host with the labels [${labels.join(' ')}] ${result ? 'fulfills' : 'does not fulfill'} the requirement ${required}`, () =>
      expect(hasLabel(labels, required)).to.equal(result))

  it('sort the labels of a host and remove duplicates', () =>
    expect(parseHostLabels(['ssd', 'rack=a1', 'ssd'])).to.deep.equal(['rack=a1', 'ssd']))

  for (const bad of [['Ssd'], [''], ['a=b=c'], ['=b'], ['a='], ['a b'], ['a=1', 'a=2'], ['a', 'a=2']])
    it(`reject the labels [${bad.join(', ')}] of a host`, () =>
      expect(fieldOf(() => parseHostLabels(bad))).to.equal('labels'))

  for (const [change, field] of [
    [{ group: '-a' }, 'placement.group'],
    [{ group: 'A' }, 'placement.group'],
    [{ spread: 'a b' }, 'placement.spread'],
    [{ together: 'a\n' }, 'placement.together'],
    [{ labels: ['a;b'] }, 'placement.labels'],
    [{ spread: 'a', together: 'a' }, 'placement'],
    [{ group: 'eu-1', labels: ['disk=nvme'], spread: 'web.1', together: 'db' }, undefined],
  ] as const)
    it(`${field ? 'reject' : 'accept'} the placement ${JSON.stringify(change)}`, () =>
      expect(fieldOf(() => parsePlacement({ ...noPlacement, ...change }))).to.equal(field))
})
