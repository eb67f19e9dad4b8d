import { expect } from 'chai'
import { KnownDevices } from './known-devices.js'

describe('known devices', () => {
  const devices = new KnownDevices(Buffer.alloc(32, 1))
  const cookie = devices.add(undefined, 7)

  it('are known for the accounts that logged in there', () => {
    expect(devices.find(cookie, 7)).to.match(/^[A-Za-z0-9_-]{22}$/)
    expect(devices.find(cookie, 8)).to.equal(undefined)
    const both = devices.add(cookie, 8)
    expect([devices.find(both, 7), devices.find(both, 8)]).to.deep.equal(
      Array(2).fill(devices.find(cookie, 7)),
    )
    expect(devices.add(both, 8)).to.equal(both)
  })

  for (const [what, made] of [
    ['nothing', undefined],
    ['empty', ''],
    ['another installation’s', new KnownDevices(Buffer.alloc(32, 2)).add(undefined, 7)],
    ['a made-up one', `${'A'.repeat(22)}.${'A'.repeat(22)}`],
    ['the proof of another device', `${'A'.repeat(22)}.${cookie.split('.')[1]}`],
    ['endless', `${cookie}${'.A'.repeat(10_000)}`],
  ] as const)
    it(`are not known by ${what}`, () => {
      expect(devices.find(made, 7)).to.equal(undefined)
    })

  it('forget the first of many accounts', () => {
    let many: string | undefined
    for (let id = 1; id <= 9; id++) many = devices.add(many, id)
    expect([1, 2, 9].map((id) => devices.find(many, id) !== undefined)).to.deep.equal([false, true, true])
  })
})
