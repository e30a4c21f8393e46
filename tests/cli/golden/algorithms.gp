# gnuplot 5.4 or later
reset
set encoding utf8
set terminal pngcairo size 1600,362 font 'DejaVu Sans,13' background '#ffffff' noenhanced
set output 'out.png'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
set multiplot
set label 1 'tiny, 65,536 tokens, causal, on toy' at screen 0.02,0.900552 left font ',17' textcolor '#222222'
set label 2 'Fastest that fits: quick, 100.0 ms a step (3 of 4 points ran)' at screen 0.02,0.80663 left font ',13' textcolor '#666666'
set key at screen 0.02,0.756906 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set yrange [2.6:-0.6]
set border 1
unset grid
set grid x linecolor '#DDDDDD' linewidth 1 linetype 1
set tics scale 0
$time0 << EOD
0 0 50
1 0 50
2 0 50
EOD
$time1 << EOD
0 50 90
1 50 290
2 50 50
EOD
$time2 << EOD
0 90 100
1 290 300
2 50 60
EOD
set lmargin at screen 0.059
set rmargin at screen 0.443889
set tmargin at screen 0.502762
set bmargin at screen 0.138122
set label 3 'Step time (ms)' at graph 0, graph 1 offset 0,2.6 left font ',14' textcolor '#222222'
set key at graph 0, graph 1 left bottom horizontal maxrows 1 Left reverse samplen 1 width -1 font ',11' textcolor '#222222'
set xrange [0:318]
set xtics 0,100
set format x '%.0f'
set ytics ('quick' 0, 'slow' 1, 'huge' 2)
unset arrow 1
plot NaN notitle, \
    $time0 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#0072B2' title 'computing', \
    $time1 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#D55E00' title 'exposed', \
    $time2 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#DDDDDD' title 'idle'
unset label 1
unset label 2
$bytes0 << EOD
0 0 1
1 0 0.5
2 0 0.5
EOD
$bytes1 << EOD
0 1 1.25
1 0.5 2
2 0.5 0.5
EOD
set lmargin at screen 0.473889
set rmargin at screen 0.714444
set tmargin at screen 0.502762
set bmargin at screen 0.138122
set label 3 'Bytes over links, per rank (GB)' at graph 0, graph 1 offset 0,2.6 left font ',14' textcolor '#222222'
set key at graph 0, graph 1 left bottom horizontal maxrows 1 Left reverse samplen 1 width -1 font ',11' textcolor '#222222'
set xrange [0:2.12]
set xtics 0,0.5
set format x '%.1f'
set ytics ('' 0, '' 1, '' 2)
unset arrow 1
plot NaN notitle, \
    $bytes0 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#009E73' title 'node', \
    $bytes1 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#E69F00' title 'cluster'
unset label 1
unset label 2
$memory0 << EOD
0 0 768
1 0 768
2 0 768
EOD
set lmargin at screen 0.744444
set rmargin at screen 0.985
set tmargin at screen 0.502762
set bmargin at screen 0.138122
set label 3 'Peak memory per rank (MiB)' at graph 0, graph 1 offset 0,2.6 left font ',14' textcolor '#222222'
set key at graph 0, graph 1 left bottom horizontal maxrows 1 Left reverse samplen 1 width -1 font ',11' textcolor '#222222'
set xrange [0:1085.44]
set xtics 0,500
set format x '%.0f'
set ytics ('' 0, '' 1, '' 2)
unset arrow 1
set arrow 1 from first 1024, graph 0 to first 1024, graph 1 nohead front linecolor '#D55E00' linewidth 2 dashtype 2
plot NaN notitle, \
    $memory0 using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '#999999' title '', \
    keyentry with lines linecolor '#D55E00' linewidth 2 dashtype 2 title 'device'
unset label 1
unset label 2
unset multiplot
unset output
