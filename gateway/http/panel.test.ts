import { expect } from 'chai'
import { planDocument } from './panel.js'

const index =
  '<title>{{brand}}</title><link rel="icon" href="/assets/icon-1.svg" type="image/svg+xml" /><p>{{brand}}</p>'

describe('the document of the panel', () => {
  it('contains the name of the provider as text', () => {
    const text = planDocument(index, { name: '<b>"A&B" $&</b>', logo: undefined })
    expect(text).to.include('<title>&#60;b&#62;&#34;A&#38;B&#34; $&#38;&#60;/b&#62;</title>').and.include('icon-1.svg')
    expect(text).to.not.include('{{').and.not.include('<b>')
  })

  it('has the logo of the provider as its icon', () => {
    const logo = { bytes: Buffer.alloc(0), path: '/brand/logo-1.png' }
    const text = planDocument(index, { name: 'A', logo })
    expect(text).to.include('<link rel="icon" href="/brand/logo-1.png"').and.include('name="logo" content="/brand/')
    expect(text).to.not.include('icon-1.svg')
  })
})
