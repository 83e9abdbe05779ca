"""Parts that our HTTP servers share: access checks, limits on connections and bodies, errors as problem JSON."""
