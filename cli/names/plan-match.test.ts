import { expect } from 'chai'
import { matchName } from './plan-match.js'

const candidates = [
  { id: '101', name: 'web1', uuid: 'aaaa1111-0000-4000-8000-000000000000' },
  { id: '102', name: 'web2', uuid: 'aaaa2222-0000-4000-8000-000000000000' },
  { id: '103', name: 'aaaa', uuid: 'bbbb1111-0000-4000-8000-000000000000' },
  { id: '104', name: 'digits', uuid: '12345678-0000-4000-8000-000000000000' },
]
const found = (text: string): string | undefined => {
  const match = matchName(text, candidates)
  return 'found' in match ? match.found.name : undefined
}

describe('the search for a guest by name', () => {
  for (const [text, name] of [
    ['web1', 'web1'],
    ['102', 'web2'],
    ['aaaa2222-0000-4000-8000-000000000000', 'web2'],
    ['AAAA1111', 'web1'],
    ['aaaa1111-00', 'web1'],
    ['aaaa111', undefined],
    ['12345678', undefined],
    ['aaaa', 'aaaa'],
    ['bbb', undefined],
    ['web', undefined],
  ] as const)
    it(`finds ${name ?? 'nothing'} for "${text}"`, () => expect(found(text)).to.equal(name))

  it('reports a text as ambiguous if several UUIDs begin with this text', () =>
    expect(matchName('aaaa1111', [candidates[0]!, { ...candidates[0]!, id: '9', name: 'twin' }])).to.deep.equal({
      similar: ['web1', 'twin'],
      isAmbiguous: true,
    }))

  it('suggests similar names', () => {
    expect(matchName('wbe1', candidates)).to.deep.include({ similar: ['web1'] })
    expect(matchName('we', candidates)).to.deep.include({ similar: ['web1', 'web2'] })
    expect(matchName('database', candidates)).to.deep.include({ similar: [] })
  })
})
