import { expect } from 'chai'
import { planCopy, splitRemote } from './plan-places.js'

describe('the arguments of berth cp', () => {
  for (const [source, target, plan] of [
    ['a', 'web1:/srv/', { direction: 'upload', guest: 'web1', remote: '/srv/', local: 'a' }],
    ['web1:/etc/hosts', '.', { direction: 'download', guest: 'web1', remote: '/etc/hosts', local: '.' }],
    ['web1:notes', 'b', { direction: 'download', guest: 'web1', remote: '/root/notes', local: 'b' }],
    ['a', 'web1:', { direction: 'upload', guest: 'web1', remote: '/root/', local: 'a' }],
    ['./a:b', '7:/x/../y', { direction: 'upload', guest: '7', remote: '/y', local: './a:b' }],
    ['web1:/a:b', '/c:d', { direction: 'download', guest: 'web1', remote: '/a:b', local: '/c:d' }],
  ] as const)
    it(`mean a copy in the direction “${plan.direction}”: ${source} ${target}`, () =>
      expect(planCopy(source, target)).to.deep.equal(plan))

  it('are accepted only if exactly one of them is in a guest', () => {
    expect(() => planCopy('a', 'b')).to.throw('neither of the paths is in a guest')
    expect(() => planCopy('web1:a', 'web2:b')).to.throw('files cannot be copied between two guests')
  })

  it('are refused if they copy the root directory', () => {
    expect(splitRemote('/srv/www/')).to.deep.equal({ parent: '/srv', name: 'www' })
    expect(() => splitRemote('/')).to.throw('the root directory cannot be copied')
  })
})
