import { expect } from 'chai'
import { pageKeyOfUrl } from './page-key.ts'

describe('the page of a URL', () => {
  for (const [name, url, key] of [
    ['is the overview without a path', 'https://panel.example/', '/'],
    ['is the overview with an empty path', 'https://panel.example/#', '/'],
    ['has no query', 'https://panel.example/#/containers?text=web', '/containers'],
    ['has the id of a guest', 'https://panel.example/#/containers/7', '/containers/7'],
    ['is the same for all tabs of a guest', 'https://panel.example/#/containers/7/network', '/containers/7'],
  ] as const)
    it(name, () => expect(pageKeyOfUrl(url)).to.equal(key))
})
